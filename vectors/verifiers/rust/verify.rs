//! Verify a folder of vectors: rustc -O --edition 2021 verify.rs && ./verify FOLDER. Plain std.
mod hashing;
mod json;
mod rules;
mod wire;

use hashing::{Scope, Token, Value};
use json::{hex, object, text, unhex, Json, Parser};
use rules::Answer;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Extra keys, out of their projection.
fn plain(value: &Json) -> Value {
    match value {
        Json::Object(_) => Value::Bytes(unhex(value.text("hex"))),
        Json::List(items) => Value::List(items.iter().map(plain).collect()),
        Json::Text(text) => Value::Text(text.clone()),
        Json::Number(digits) => Value::Integer(digits.parse().unwrap()),
        _ => Value::Null,
    }
}

fn tokens_of(items: &[Json], width: usize, faults: &mut Vec<String>) -> Vec<Token> {
    let mut tokens = vec![];
    for item in items {
        match item {
            Json::Object(_) => {
                let part = |key| item.number(key).unwrap();
                tokens.extend((0..part("count")).map(|k| Token::Id(part("from") + k * part("step"))));
            }
            Json::Text(digits) => {
                tokens.push(Token::Digest(unhex(digits)));
                faults.extend((digits.len() != 64).then(|| "digest-length".into()));
            }
            other => {
                let id: i128 = other.str().parse().unwrap();
                tokens.push(Token::Id(id as u64));
                faults.extend((id < 0 || id >> (8 * width) > 0).then(|| "token-range".into()));
            }
        }
    }
    tokens
}

fn answer_hash(group: &Json, input: &Json) -> Result<Answer, String> {
    let label = group.text("algorithm");
    let width = if label.ends_with("/u64") { 8 } else { group.number("width").unwrap_or(4) as usize };
    let mut faults = vec![];
    let tokens = tokens_of(input.list("tokens"), width, &mut faults);
    let words = |key| input.get(key).map(|value| value.str().to_string());
    let key = |key: &Json| (unhex(key.text("hash")), key.number("start_offset").unwrap());
    let given = Scope {
        parent: input.number("parent"),
        parent_key: words("parent_key").map(|digits| unhex(&digits)),
        lora: input.number("lora_id"),
        lora_name: words("lora_name"),
        salt: input.number("salt_id").or_else(|| words("salt").map(|text| hashing::salt_id(&text))),
        text: words("salt"),
        extra: input.get("extra_ids").map(|ids| ids.items().iter().map(|id| id.str().parse().unwrap()).collect()),
        mm: input.list("mm_keys").iter().map(|keys| keys.items().iter().map(key).collect()).collect(),
        extra_keys: input.get("extra_keys").map(|keys| keys.items().iter().map(plain).collect()),
    };
    let uneven = given.extra.as_ref().map_or(false, |extra| extra.len() != tokens.len());
    faults.extend(uneven.then(|| "extra-ids-count".into()));
    let other = |text: &String| given.salt != Some(hashing::salt_id(text));
    faults.extend(given.text.as_ref().map_or(false, other).then(|| "salt-id".into()));
    if !faults.is_empty() {
        return Ok((object(&[]), faults));
    }
    if label == "scope_tag" {
        let key = words("scope_key").map(|digits| unhex(&digits));
        let tag = hashing::scope_tag(&words("salt").unwrap_or_default(), key);
        return Ok((object(&[("tag", text(tag))]), vec![]));
    }
    let size = input.number("block_size").unwrap_or(1) as usize;
    let blocks: Vec<&[Token]> = tokens.chunks(size).collect();
    let found = match label {
        "v2_sha256/root" => vec![(0, Some(hashing::root_key(given.lora, given.salt)))],
        "salt_id" => vec![(given.salt.unwrap(), None)],
        _ => hashing::chain(label, width, &given, &blocks)?,
    };
    let (last, key) = found.last().unwrap();
    let digits = |key: &Option<Vec<u8>>| text(hex(key.as_deref().unwrap_or(&[])));
    let by_key = label.starts_with("v2_sha256/");
    let listed = found.iter().map(|(hash, key)| if by_key { digits(key) } else { text(hash) }).collect();
    let members =
        [("unsigned", text(last)), ("signed", text(*last as i64)), ("key", digits(key)), ("chain", Json::List(listed))];
    Ok((object(&members), vec![]))
}

/// What is wrong with a test, or nothing; or the reason why it is skipped.
fn verify_test(kind: &str, group: &Json, test: &Json) -> Result<String, String> {
    let input = test.get("input").unwrap_or(test);
    let (answer, breaks) = match kind {
        "hash" => answer_hash(group, input)?,
        "wire" => rules::answer_wire(input),
        "envelope" => rules::answer_envelope(input),
        _ => return Err("sha256 only".into()),
    };
    let expected = test.get("expected").unwrap();
    let left_out = ["fault", "layer", "also", if kind == "wire" { "form" } else { "" }];
    let (mut wanted, mut got) = (vec![], vec![]);
    if let Json::Object(members) = expected {
        for (name, value) in members.iter().filter(|(name, _)| !left_out.contains(&&name[..])) {
            wanted.push((&name[..], value.clone()));
            got.push((&name[..], answer.get(name).cloned().unwrap_or(Json::Null)));
        }
    }
    let (wanted, got) = (object(&wanted).canonical(), object(&got).canonical());
    if wanted != got {
        return Ok(format!("expected {}, got {}", wanted, got));
    }
    let (result, fault) = (test.text("result"), expected.text("fault"));
    let open = result == "invalid" || result == "acceptable";
    let allowed = |id: &String| open && (id == fault || test.list("requirements").iter().any(|one| one.str() == id));
    if breaks.iter().all(allowed) && (result != "invalid" || !breaks.is_empty()) {
        return Ok("".into());
    }
    Ok(format!("expected fault {:?}, got {:?}", fault, breaks))
}

fn verify_file(listed: &Json, data: &[u8]) -> usize {
    let (path, kind) = (listed.text("path"), listed.text("schema").split('/').nth(2).unwrap());
    let (mut passed, mut failed, mut skipped, mut reason) = (0, 0, 0, String::new());
    let fail = |name: &str, wrong: &str| println!("FAIL {} {}: {}", path, name, wrong);
    let sum = hex(&hashing::sha256(data));
    if sum != listed.text("sha256") {
        failed += 1;
        fail("sha256", &format!("expected {}, got {}", listed.text("sha256"), sum));
    }
    if kind == "trace" {
        println!("{}: 0 passed, {} failed, 0 skipped (sha256 only)", path, failed);
        return failed;
    }
    let file = Parser { data, at: 0 }.value();
    let known =
        |one: &Json| object(&[("algorithm", text(one.text("algorithm"))), ("tests", Json::List(vec![one.clone()]))]);
    let known: Vec<Json> = file.list("answers").iter().map(known).collect();
    let groups = file.list("groups").iter().chain(&known);
    let tests: Vec<(&Json, &Json)> =
        groups.flat_map(|group| group.list("tests").iter().map(move |test| (group, test))).collect();
    for (group, test) in &tests {
        match catch_unwind(AssertUnwindSafe(|| verify_test(kind, group, test))) {
            Ok(Ok(wrong)) if wrong.is_empty() => passed += 1,
            Ok(Err(why)) => {
                skipped += 1;
                reason = why;
            }
            other => {
                failed += 1;
                let wrong = other.ok().and_then(Result::ok);
                fail(test.text("id"), &wrong.unwrap_or_else(|| "expected an answer, got a panic".into()));
            }
        }
    }
    let ids: Vec<&str> = tests.iter().map(|(_, test)| test.text("id")).collect();
    let count = if tests.is_empty() { listed.number("count") } else { Some(ids.len() as u64) };
    let right = tests.is_empty() || ids.iter().eq(listed.list("ids").iter().map(Json::str).collect::<Vec<_>>().iter());
    if !right || count != listed.number("count") || count != file.number("count") {
        failed += 1;
        fail("ids", "expected the tests that the manifest lists, got others");
    }
    if tests.is_empty() {
        skipped = count.unwrap_or(0);
        reason = "sha256 only".into();
    }
    let reason = if skipped > 0 { format!(", {} skipped ({})", skipped, reason) } else { reason };
    println!("{}: {} passed, {} failed{}", path, passed, failed, reason);
    failed
}

fn main() {
    let folder = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let read = |path: &str| {
        std::fs::read(folder.join(path)).unwrap_or_else(|error| {
            println!("FAIL {} file: {}", path, error);
            std::process::exit(1);
        })
    };
    let manifest = Parser { data: &read("MANIFEST.json"), at: 0 }.value();
    let failed: usize =
        manifest.list("files").iter().map(|listed| verify_file(listed, &read(listed.text("path")))).sum();
    std::process::exit(i32::from(failed > 0));
}
