//! The hash functions of the standard, from its text (hashing.md), and SHA-256.

pub const NO_WRAP: &str = "v1_block_key/no-wrap";

/// An id, or the digest of a multimodal item.
#[derive(Clone)]
pub enum Token {
    Id(u64),
    Digest(Vec<u8>),
}

/// What vLLM hashes.
#[derive(Clone)]
pub enum Value {
    Null,
    Integer(u64),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Value>),
}

/// What a chain is made of, as the input of a vector names it.
#[derive(Default)]
pub struct Scope {
    pub parent: Option<u64>,
    pub parent_key: Option<Vec<u8>>,
    pub lora: Option<u64>,
    pub lora_name: Option<String>,
    pub salt: Option<u64>,
    pub text: Option<String>,
    pub extra: Option<Vec<u64>>,
    pub mm: Vec<Vec<(Vec<u8>, u64)>>,
    pub extra_keys: Option<Vec<Value>>,
}

pub fn sha256(data: &[u8]) -> Vec<u8> {
    let primes: Vec<u64> = (2..312).filter(|n| (2..*n).all(|d| n % d != 0)).collect();
    // The first 32 bits of the fractions of square and cube roots of primes.
    let fraction = |prime: u64, power: u32| {
        let (mut low, mut high) = (0u128, 1u128 << 40);
        while high - low > 1 {
            let middle = (low + high) / 2;
            let fits = middle.pow(power) <= u128::from(prime) << (32 * power);
            if fits {
                low = middle
            } else {
                high = middle
            }
        }
        low as u32
    };
    let k: Vec<u32> = primes.iter().take(64).map(|prime| fraction(*prime, 3)).collect();
    let mut state: Vec<u32> = primes.iter().take(8).map(|prime| fraction(*prime, 2)).collect();
    let mut padded = data.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8 + 63) / 64 * 64 - 8, 0);
    padded.extend((data.len() as u64 * 8).to_be_bytes());
    for chunk in padded.chunks(64) {
        let mut w: Vec<u32> = chunk.chunks(4).map(|c| u32::from_be_bytes(c.try_into().unwrap())).collect();
        for i in 16..64 {
            let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
            let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
            w.push(w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1));
        }
        let mut v = state.clone();
        for i in 0..64 {
            let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
            let t1 = v[7].wrapping_add(s1).wrapping_add(choice).wrapping_add(k[i]).wrapping_add(w[i]);
            let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
            v.rotate_right(1);
            v[4] = v[4].wrapping_add(t1);
            v[0] = t1.wrapping_add(s0).wrapping_add(majority);
        }
        state.iter_mut().zip(v).for_each(|(s, v)| *s = s.wrapping_add(v));
    }
    state.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn step32(x: u64, s: u64, wrap: bool) -> u64 {
    let mut v = x as u32;
    v = (v ^ (v >> 16)).wrapping_mul(0x045d9f3b);
    v = (v ^ (v >> 16)).wrapping_mul(0x045d9f3b);
    v ^= v >> 16;
    let sum = if wrap { u64::from(v.wrapping_add(0x9e3779b9)) } else { u64::from(v) + 0x9e3779b9 };
    s ^ sum.wrapping_add(s << 6).wrapping_add(s >> 2)
}

fn step64(x: u64, s: u64) -> u64 {
    let mut v = (x ^ (x >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    v = (v ^ (v >> 27)).wrapping_mul(0x94d049bb133111eb);
    v ^= v >> 31;
    s ^ v.wrapping_add(0x9e3779b9).wrapping_add(s << 6).wrapping_add(s >> 2)
}

fn v1_block(tokens: &[Token], parent: u64, given: &Scope, index: usize, at: usize, wrap: bool) -> u64 {
    let mut s = tokens.len() as u64 ^ parent.wrapping_mul(0xbf58476d1ce4e5b9);
    if let (0, Some(salt)) = (parent, given.salt) {
        s = step64(salt, s);
    }
    for (i, token) in tokens.iter().enumerate() {
        if let Token::Id(id) = token {
            s = step32(*id, s, wrap);
        }
        if let Some(extra) = &given.extra {
            s = step64(extra[at + i], s);
        }
    }
    if let Some(lora) = given.lora {
        s = step64(lora, s);
    }
    for (digest, offset) in given.mm.get(index).into_iter().flatten() {
        for word in digest.chunks(4) {
            s = step32(u64::from(u32::from_le_bytes(word.try_into().unwrap())), s, wrap);
        }
        s = step64(*offset, s);
    }
    s
}

pub fn salt_id(text: &str) -> u64 {
    u64::from_le_bytes(sha256(text.as_bytes())[..8].try_into().unwrap())
}

/// The first eight bytes of a digest, or of an HMAC under a key (hex).
pub fn scope_tag(text: &str, key: Option<Vec<u8>>) -> String {
    let mut message = b"kvwire-scope-1\0".to_vec();
    message.extend(text.as_bytes());
    let digest = match key {
        None => sha256(&message),
        Some(key) => {
            let mut block = if key.len() > 64 { sha256(&key) } else { key };
            block.resize(64, 0);
            let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
            let inner = sha256(&[pad(0x36), message].concat());
            sha256(&[pad(0x5c), inner].concat())
        }
    };
    digest[..8].iter().map(|byte| format!("{:02x}", byte)).collect()
}

pub fn root_key(lora: Option<u64>, salt: Option<u64>) -> Vec<u8> {
    let mut data = vec![u8::from(lora.is_some()) + 2 * u8::from(salt.is_some())];
    for id in lora.into_iter().chain(salt) {
        data.extend(id.to_le_bytes());
    }
    sha256(&data)
}

fn block_key(parent: &[u8], tokens: &[Token], width: usize) -> Vec<u8> {
    let mut data = parent.to_vec();
    for token in tokens {
        match token {
            Token::Id(id) => data.extend(&id.to_le_bytes()[..width]),
            Token::Digest(digest) => data.extend(digest),
        }
    }
    sha256(&data)
}

fn cbor(value: &Value) -> Vec<u8> {
    let (major, count) = match value {
        Value::Null => return vec![0xf6],
        Value::Integer(n) => (0x00, *n),
        Value::Bytes(data) => (0x40, data.len() as u64),
        Value::Text(text) => (0x60, text.len() as u64),
        Value::List(items) => (0x80, items.len() as u64),
    };
    let mut data = vec![major | count.min(24) as u8];
    if count >= 24 {
        let code = (0..4).find(|code| *code == 3 || count >> (8 << code) == 0).unwrap();
        data[0] = major | 24 + code as u8;
        data.extend(&count.to_be_bytes()[8 - (1 << code)..]);
    }
    match value {
        Value::Bytes(bytes) => data.extend(bytes),
        Value::Text(text) => data.extend(text.as_bytes()),
        Value::List(items) => data.extend(items.iter().flat_map(cbor)),
        _ => (),
    }
    data
}

/// Python's pickle, protocol 5.
fn pickle(value: &Value) -> Vec<u8> {
    let mut body = pickled(value);
    body.push(b'.');
    [&[0x80, 5, 0x95], &(body.len() as u64).to_le_bytes()[..], &body].concat()
}

fn pickled(value: &Value) -> Vec<u8> {
    let short = |code: u8, data: &[u8]| [&[code, data.len() as u8], data, &[0x94]].concat();
    match value {
        Value::Null => vec![b'N'],
        Value::Bytes(data) => short(0x43, data),
        Value::Text(text) => short(0x8c, text.as_bytes()),
        Value::Integer(n) => {
            let little = i128::from(*n).to_le_bytes();
            match *n {
                0..=0xff => [&[0x4b], &little[..1]].concat(),
                0x100..=0xffff => [&[0x4d], &little[..2]].concat(),
                0x10000..=0x7fffffff => [&[0x4a], &little[..4]].concat(),
                _ => {
                    let size = (4..10).find(|size| *n >> (8 * size - 1).min(63) == 0 || *size == 9).unwrap();
                    [&[0x8a, size as u8], &little[..size]].concat()
                }
            }
        }
        Value::List(items) => {
            let parts: Vec<u8> = items.iter().flat_map(pickled).collect();
            match items.len() {
                0..=3 => [&parts[..], &[0x84 + items.len() as u8, 0x94]].concat(),
                _ => [&[0x28], &parts[..], &[0x74, 0x94]].concat(),
            }
        }
    }
}

fn vllm_key(label: &str, parent: Option<Vec<u8>>, tokens: &[Token], extra: Value) -> Vec<u8> {
    let dump = |value: &Value| sha256(&if label.starts_with("x-vllm-sha256-cbor") { cbor(value) } else { pickle(value) });
    let parent = parent.unwrap_or_else(|| dump(&Value::Text("vllm-none-hash".into())));
    let id = |token: &Token| if let Token::Id(id) = token { Value::Integer(*id) } else { Value::Null };
    let extra = if matches!(&extra, Value::List(keys) if keys.is_empty()) { Value::Null } else { extra };
    dump(&Value::List(vec![Value::Bytes(parent), Value::List(tokens.iter().map(id).collect()), extra]))
}

/// Extra keys as vLLM hashes them since 0.31: each with its kind before it.
fn kinded(extra: Value) -> Value {
    let one = |key: Value| {
        let kind = |text: &str| Value::Text(text.into());
        Value::List(match key {
            Value::List(parts) => [vec![kind("mm")], parts].concat(),
            Value::Text(_) => vec![kind("cache_salt"), key],
            _ => vec![kind("prompt_embeds"), key],
        })
    };
    match extra {
        Value::List(keys) => Value::List(keys.into_iter().map(one).collect()),
        other => other,
    }
}

/// Hash of each block, and its key where the hash is taken from one; or the reason why there is no such function here.
pub fn chain(
    label: &str,
    width: usize,
    given: &Scope,
    blocks: &[&[Token]],
) -> Result<Vec<(u64, Option<Vec<u8>>)>, String> {
    let (mut hash, mut key) = (given.parent.unwrap_or(0), given.parent_key.clone());
    if key.is_none() && hash == 0 && label.starts_with('v') {
        key = Some(root_key(given.lora, given.salt));
    } else if key.is_none() && label == "x-sglang-sha256" {
        let salted = |text: &String| sha256(&["sglang-cache-salt-v1\0", text].concat().into_bytes());
        key = Some(given.text.as_ref().map_or(vec![], salted));
    }
    let (mut keyed, mut at, mut found) = (!label.starts_with("v1_block_key"), 0, vec![]);
    for (index, tokens) in blocks.iter().enumerate() {
        keyed |= tokens.iter().any(|token| matches!(token, Token::Digest(_)));
        if label.starts_with("x-vllm") {
            let salt = given.text.iter().filter(|_| index == 0);
            let own = given.lora_name.iter().chain(salt).map(|text| Value::Text(text.clone())).collect();
            let extra = given.extra_keys.as_ref().map_or(Value::List(own), |keys| keys[index].clone());
            let extra = if label.ends_with("/kinds") { kinded(extra) } else { extra };
            key = Some(vllm_key(label, key, tokens, extra));
        } else {
            key = key.map(|parent| block_key(&parent, tokens, width));
        }
        if !keyed {
            hash = v1_block(tokens, hash, given, index, at, label != NO_WRAP);
            found.push((hash, None));
        } else {
            let made = key.clone().ok_or(format!("no {} here", label))?;
            let last = label.starts_with("x-vllm") || label.starts_with("v2_sha256_low64");
            hash = u64::from_be_bytes(if last { &made[24..] } else { &made[..8] }.try_into().unwrap());
            found.push((hash, Some(made)));
        }
        at += tokens.len();
    }
    Ok(found)
}
