//! Payloads: msgpack, and its JSON projection (projection.md).
use crate::json::{hex, object, text, Json};

#[derive(Clone)]
pub enum Node {
    Nil,
    Bool(bool),
    Int(i128),
    Float { bits: u64, wide: bool },
    Text(String),
    Raw(Vec<u8>), // a string that is not UTF-8
    Bin(Vec<u8>),
    Ext(i8, Vec<u8>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

pub struct Reader {
    pub data: Vec<u8>,
    pub at: usize,
}

/// What the bytes end before, or the byte that msgpack never uses.
pub struct Truncated;

impl Reader {
    fn take(&mut self, count: usize) -> Result<Vec<u8>, Truncated> {
        let taken = self.data[self.at..].get(..count).ok_or(Truncated)?.to_vec();
        self.at += count;
        Ok(taken)
    }

    fn size(&mut self, width: usize) -> Result<usize, Truncated> {
        Ok(self.take(width)?.iter().fold(0, |number, byte| number << 8 | *byte as usize))
    }

    fn text(&mut self, size: usize) -> Result<Node, Truncated> {
        Ok(String::from_utf8(self.take(size)?).map_or_else(|error| Node::Raw(error.into_bytes()), Node::Text))
    }

    fn ext(&mut self, size: usize) -> Result<Node, Truncated> {
        Ok(Node::Ext(self.take(1)?[0] as i8, self.take(size)?))
    }

    fn list(&mut self, size: usize) -> Result<Node, Truncated> {
        Ok(Node::List((0..size).map(|_| self.value()).collect::<Result<_, _>>()?))
    }

    fn map(&mut self, size: usize) -> Result<Node, Truncated> {
        Ok(Node::Map((0..size).map(|_| Ok((self.value()?, self.value()?))).collect::<Result<_, _>>()?))
    }

    pub fn value(&mut self) -> Result<Node, Truncated> {
        let code = self.take(1)?[0];
        let low = code as usize;
        match code {
            0..=0x7f => Ok(Node::Int(code.into())),
            0x80..=0x8f => self.map(low & 15),
            0x90..=0x9f => self.list(low & 15),
            0xa0..=0xbf => self.text(low & 31),
            0xc0 => Ok(Node::Nil),
            0xc1 => Err(Truncated),
            0xc2 | 0xc3 => Ok(Node::Bool(code == 0xc3)),
            0xc4..=0xc6 => {
                let size = self.size(1 << (low - 0xc4))?;
                Ok(Node::Bin(self.take(size)?))
            }
            0xc7..=0xc9 => {
                let size = self.size(1 << (low - 0xc7))?;
                self.ext(size)
            }
            0xca => {
                let narrow = f32::from_bits(self.size(4)? as u32);
                Ok(Node::Float { bits: f64::from(narrow).to_bits(), wide: false })
            }
            0xcb => Ok(Node::Float { bits: self.size(8)? as u64, wide: true }),
            0xcc..=0xcf => Ok(Node::Int(self.size(1 << (low - 0xcc))? as i128)),
            0xd0..=0xd3 => {
                let width = 1 << (low - 0xd0);
                let shift = 128 - 8 * width;
                Ok(Node::Int((self.size(width)? as i128) << shift >> shift))
            }
            0xd4..=0xd8 => self.ext(1 << (low - 0xd4)),
            0xd9..=0xdb => {
                let size = self.size(1 << (low - 0xd9))?;
                self.text(size)
            }
            0xdc | 0xdd => {
                let size = self.size(2 << (low - 0xdc))?;
                self.list(size)
            }
            0xde | 0xdf => {
                let size = self.size(2 << (low - 0xde))?;
                self.map(size)
            }
            0xe0..=0xff => Ok(Node::Int((code as i8).into())),
        }
    }
}

const ORDER: &str = "type block_hashes parent_block_hash token_ids block_size lora_id medium lora_name extra_keys \
    group_idx kv_cache_spec_kind kv_cache_spec_sliding_window locality ownership scope session_id mm_keys hash_algo \
    epoch v";
const FIELDS: [&str; 3] = ["block_hashes", "parent_block_hash", "lora_id"];
const TAKEN: [&[&str]; 6] = [&["hex"], &["hex", "str"], &["int"], &["bits", "float"], &["ext", "hex"], &["map"]];

impl Node {
    /// `field`: the value of a 64-bit field, or inside of one. Keys of objects name fields, wherever they stand.
    pub fn project(&self, field: bool) -> Json {
        match self {
            Node::Nil => Json::Null,
            Node::Bool(value) => Json::Bool(*value),
            Node::Int(number) if field => text(number),
            Node::Int(number) if number.abs() >> 53 == 0 => Json::Number(number.to_string()),
            Node::Int(number) => object(&[("int", text(number))]),
            Node::Float { bits, .. } => object(&[("float", text("")), ("bits", text(hex(&bits.to_be_bytes())))]),
            Node::Text(value) => text(value),
            Node::Raw(data) => object(&[("hex", text(hex(data))), ("str", text("not UTF-8"))]),
            Node::Bin(data) => object(&[("hex", text(hex(data)))]),
            Node::Ext(code, data) => object(&[("ext", Json::Number(code.to_string())), ("hex", text(hex(data)))]),
            Node::List(items) => Json::List(items.iter().map(|item| item.project(field)).collect()),
            Node::Map(pairs) => {
                let mut keys: Vec<&str> = pairs.iter().filter_map(|(key, _)| key.str()).collect();
                keys.sort_unstable();
                keys.dedup();
                if keys.len() < pairs.len() || TAKEN.contains(&&keys[..]) {
                    let pair = |(key, value): &(Node, Node)| Json::List(vec![key.project(false), value.project(false)]);
                    return object(&[("map", Json::List(pairs.iter().map(pair).collect()))]);
                }
                keys.sort_by_key(|key| ORDER.split_whitespace().position(|known| known == *key).unwrap_or(99));
                let made = keys.iter().map(|key| (*key, self.get(key).unwrap().project(FIELDS.contains(key))));
                object(&made.collect::<Vec<_>>())
            }
        }
    }

    pub fn project_payload(&self) -> Json {
        match (self, self.project(false)) {
            (Node::List(parts), Json::List(made)) if parts.len() == 3 && matches!(parts[1], Node::List(_)) => {
                let names = ["ts", "events", "data_parallel_rank"];
                object(&names.into_iter().zip(made).collect::<Vec<_>>())
            }
            (_, projected) => projected,
        }
    }

    pub fn str(&self) -> Option<&str> {
        match self {
            Node::Text(value) => Some(value),
            _ => None,
        }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        match self {
            Node::Map(pairs) => pairs.iter().find(|(name, _)| name.str() == Some(key)).map(|(_, value)| value),
            _ => None,
        }
    }
}
