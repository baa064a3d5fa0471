//! What a payload or a live message says, and the sentences of the standard that it breaks, by their ids.
use crate::json::{object, text, unhex, Json};
use crate::wire::{Node, Reader};
use std::collections::HashSet;

pub type Answer = (Json, Vec<String>);
const TEXTS: [&str; 8] =
    ["lora_name", "kv_cache_spec_kind", "hash_algo", "locality", "ownership", "scope", "session_id", "epoch"];
const STORED: [&str; 7] =
    ["block_hashes", "medium", "parent_block_hash", "token_ids", "block_size", "lora_id", "lora_name"];

fn within(node: Option<&Node>, low: i128, high: i128) -> bool {
    matches!(node, Some(Node::Int(number)) if (low..high).contains(number))
}

fn digest(node: Option<&Node>) -> bool {
    let digits = node.and_then(Node::str).unwrap_or("");
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn items(node: Option<&Node>) -> Option<&Vec<Node>> {
    match node {
        Some(Node::List(items)) => Some(items),
        _ => None,
    }
}

fn given<'a>(event: &'a Node, key: &str) -> Option<&'a Node> {
    event.get(key).filter(|value| !matches!(value, Node::Nil))
}

/// A location update: hashes that are in another medium than the device, and nothing more.
fn location(event: &Node) -> bool {
    let bare = items(event.get("token_ids")).map_or(false, |tokens| tokens.is_empty());
    let plain = bare && within(event.get("block_size"), 0, 1) && given(event, "parent_block_hash").is_none();
    let there = items(event.get("block_hashes")).map_or(false, |hashes| !hashes.is_empty());
    plain && there && event.get("medium").and_then(Node::str).map_or(false, |name| name != "GPU")
}

fn mm_key(key: &Node) -> bool {
    let known = |name: &Node| matches!(name.str(), Some("type" | "hash" | "start_offset" | "uuid"));
    let right = key.get("type").and_then(Node::str) == Some("mm_key") && digest(key.get("hash"));
    matches!(key, Node::Map(pairs) if pairs.iter().all(|(name, _)| known(name)))
        && right
        && within(key.get("start_offset"), 0, 1 << 64)
        && key.get("uuid").map_or(true, |uuid| uuid.str().is_some())
}

#[derive(Default)]
struct Rules(Vec<String>);

impl Rules {
    fn unless(&mut self, right: bool, id: &str) -> bool {
        if !right {
            self.0.push(format!("KVW-{}", id));
        }
        right
    }

    /// What may stand nowhere in a payload.
    fn everywhere(&mut self, node: &Node) {
        match node {
            Node::Raw(_) => drop(self.unless(false, "ENV-006")),
            Node::Ext(..) => drop(self.unless(false, "EVT-004")),
            Node::List(items) => items.iter().for_each(|item| self.everywhere(item)),
            Node::Map(pairs) => {
                let mut seen = HashSet::new();
                for (key, value) in pairs {
                    self.everywhere(key);
                    self.everywhere(value);
                    self.unless(matches!(key, Node::Text(_) | Node::Raw(_)), "EVT-002");
                    self.unless(key.str().map_or(true, |name| seen.insert(name)), "EVT-003");
                }
            }
            _ => (),
        }
    }

    fn batch(&mut self, node: &Node) {
        self.everywhere(node);
        let parts = items(Some(node)).filter(|parts| parts.len() == 3);
        if !self.unless(parts.is_some(), "BAT-001") {
            return;
        }
        let parts = parts.unwrap();
        match parts[0] {
            Node::Float { bits, wide: true } => {
                self.unless((0.0..1e11).contains(&f64::from_bits(bits)), "BAT-003");
            }
            _ => drop(self.unless(false, "BAT-002")),
        }
        self.unless(within(Some(&parts[2]), 0, 1 << 31), "RNK-001");
        self.unless(items(Some(&parts[1])).is_some(), "BAT-005");
        let mut announced = HashSet::new();
        for event in items(Some(&parts[1])).into_iter().flatten() {
            let kind = event.get("type").and_then(Node::str);
            self.unless(kind.is_some(), "EVT-001");
            if let Some("BlockStored" | "BlockRemoved" | "AllBlocksCleared") = kind {
                self.event(event, kind.unwrap_or_default());
            }
            if let Some("BlockStored" | "BlockRemoved") = kind {
                announced.insert(event.get("hash_algo").and_then(Node::str));
            }
            self.unless(event.get("v").is_none() || within(event.get("v"), 0, 1 << 64), "EVT-018");
            self.unless(event.get("cache_salt").is_none(), "EVT-019");
        }
        self.unless(announced.len() < 2, "HSH-003");
    }

    fn event(&mut self, event: &Node, kind: &str) {
        let stored = kind == "BlockStored";
        let medium = given(event, "medium");
        self.unless(medium.map_or(true, |name| name.str().map_or(false, |name| !name.is_empty())), "EVT-015");
        let texts = TEXTS.iter().all(|key| given(event, key).map_or(true, |value| value.str().is_some()));
        let counts = ["lora_id", "group_idx", "kv_cache_spec_sliding_window"];
        let counts = counts.iter().all(|key| given(event, key).map_or(true, |value| within(Some(value), 0, 1 << 64)));
        self.unless(texts && counts, "EVT-021");
        if kind == "AllBlocksCleared" {
            return;
        }
        let required = &STORED[..if stored { 7 } else { 2 }];
        let there = required.iter().all(|key| event.get(key).is_some());
        if !self.unless(there, if stored { "EVT-005" } else { "EVT-006" }) {
            return;
        }
        let hashes = items(event.get("block_hashes"));
        let parent = given(event, "parent_block_hash");
        let chain: Vec<&Node> = hashes.into_iter().flatten().chain(parent).collect();
        let integers = hashes.is_some() && chain.iter().all(|hash| matches!(hash, Node::Int(_)));
        if self.unless(integers, "EVT-007") && stored && !location(event) {
            let bits = |hash: &&Node| if let Node::Int(number) = hash { *number as u64 } else { 0 };
            let distinct: HashSet<u64> = chain.iter().map(bits).collect();
            self.unless(distinct.len() == chain.len(), "CHN-004");
        }
        if stored {
            let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            let scope = event.get("scope").and_then(Node::str);
            self.unless(scope.map_or(true, |tag| tag.len() == 16 && tag.bytes().all(hex)), "EVT-028");
            let element = |keys: &Node| matches!(keys, Node::Nil | Node::List(_));
            let count = |keys: &Vec<Node>| hashes.map_or(true, |hashes| hashes.len() == keys.len());
            let shaped = |keys: &Node| items(Some(keys)).map_or(false, |keys| count(keys) && keys.iter().all(element));
            self.unless(given(event, "extra_keys").map_or(true, shaped), "EVT-029");
            self.tokens(event, hashes);
        }
    }

    fn tokens(&mut self, event: &Node, hashes: Option<&Vec<Node>>) {
        let (tokens, keys) = (items(event.get("token_ids")), given(event, "mm_keys"));
        let narrow = event.get("hash_algo").and_then(Node::str).map_or(false, |name| name.ends_with("/u32"));
        let limit = if narrow { 1 << 31 } else { 1 << 32 };
        let texts: Vec<&Node> = tokens.into_iter().flatten().filter(|token| token.str().is_some()).collect();
        let right = |token: &Node| token.str().is_some() || within(Some(token), 0, limit);
        if self.unless(tokens.map_or(false, |tokens| tokens.iter().all(right)), "EVT-010")
            && self.unless(texts.iter().all(|token| digest(Some(token))), "EVT-011")
        {
            self.unless(texts.is_empty() || keys.is_some(), "EVT-012");
        }
        if location(event) {
            return;
        }
        match (event.get("block_size"), tokens, hashes) {
            (Some(Node::Int(size)), Some(tokens), Some(hashes)) if *size > 0 => {
                let full = !hashes.is_empty() && tokens.len() as i128 == size * hashes.len() as i128;
                self.unless(full, "EVT-013");
            }
            (size, ..) => drop(self.unless(within(size, 1, 1 << 64), "EVT-014")),
        }
        if let Some(keys) = keys {
            let count = |keys: &Vec<Node>| hashes.map_or(true, |hashes| hashes.len() == keys.len());
            let block = |block: &Node| items(Some(block)).is_some();
            let right = items(Some(keys)).map_or(false, |keys| count(keys) && keys.iter().all(block));
            if self.unless(right, "EVT-012") {
                let lists = items(Some(keys)).into_iter().flatten();
                let blocks: Vec<&Vec<Node>> = lists.filter_map(|list| items(Some(list))).collect();
                if self.unless(blocks.iter().all(|keys| keys.iter().all(mm_key)), "EVT-030") {
                    self.content(tokens, event.get("block_size"), &blocks);
                }
            }
        }
    }

    /// Each digest token has a key in the list of its block, and each key at offset 0 a digest token.
    fn content(&mut self, tokens: Option<&Vec<Node>>, size: Option<&Node>, blocks: &[&Vec<Node>]) {
        let (tokens, size) = match (tokens, size) {
            (Some(tokens), Some(Node::Int(size))) => (tokens, size),
            _ => return,
        };
        if *size < 1 || !tokens.iter().any(|token| digest(Some(token))) {
            return;
        }
        let lower = |node: Option<&Node>| node.and_then(Node::str).unwrap_or("").to_lowercase();
        for (index, keys) in blocks.iter().enumerate() {
            let from = index * *size as usize;
            let here = tokens.iter().skip(from).take(*size as usize).filter(|token| digest(Some(token)));
            let there: HashSet<String> = here.map(|token| lower(Some(token))).collect();
            let first = keys.iter().filter(|key| within(key.get("start_offset"), 0, 1));
            let begun: HashSet<String> = first.map(|key| lower(key.get("hash"))).collect();
            self.unless(begun == there, "EVT-031");
        }
    }
}

/// The projection of a payload, if it begins with a value.
pub fn answer_wire(input: &Json) -> Answer {
    let (mut projection, mut broken) = (None::<Json>, vec![]);
    for payload in input.get("payload").into_iter().chain(input.list("encodings")) {
        let mut reader = Reader { data: unhex(payload.str()), at: 0 };
        let mut rules = Rules::default();
        let ended = vec!["KVW-ENV-006".to_string()];
        let node = match reader.value() {
            Ok(node) => node,
            Err(_) => return (object(&[]), ended),
        };
        rules.batch(&node);
        rules.unless(reader.at == reader.data.len(), "ENV-006");
        let found = node.project_payload();
        let same = projection.as_ref().map_or(true, |first| first.canonical() == found.canonical());
        rules.unless(same, "EVT-025");
        projection = projection.or(Some(found));
        broken.extend(if rules.0.contains(&ended[0]) { ended } else { rules.0 });
    }
    (object(&[("projection", projection.unwrap_or(Json::Null))]), broken)
}

pub fn answer_envelope(input: &Json) -> Answer {
    let frames = input.list("frames");
    if frames.len() != 3 {
        return (object(&[]), vec!["KVW-ENV-001".into()]);
    }
    let (number, mut rules) = (unhex(frames[1].str()), Rules::default());
    rules.unless(String::from_utf8(unhex(frames[0].str())).is_ok(), "ENV-004");
    rules.unless(number.len() == 8, "ENV-005");
    rules.unless(!frames[2].str().is_empty(), "ENV-006");
    rules.unless(number != [0xff; 8], "SEQ-006");
    let decimal = number.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let (topic, payload) = (frames[0].clone(), frames[2].clone());
    (object(&[("topic", topic), ("sequence", text(decimal)), ("payload", payload)]), rules.0)
}
