// The hash functions of the standard, from its text (hashing.md). Node's standard library only.
// Hashes and ids of 64 bits are BigInt, token ids numbers, digests and keys Buffers.
import { createHash, createHmac } from "node:crypto";

export class Skipped extends Error {}

const M64 = (1n << 64n) - 1n;

function step32(x, s, wrap) {
  let v = x >>> 0;
  v = Math.imul(v ^ (v >>> 16), 0x045d9f3b);
  v = Math.imul(v ^ (v >>> 16), 0x045d9f3b);
  v = ((v ^ (v >>> 16)) >>> 0) + 0x9e3779b9;
  return s ^ ((BigInt(wrap ? v >>> 0 : v) + (s << 6n) + (s >> 2n)) & M64);
}

function step64(x, s) {
  let v = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & M64;
  v = ((v ^ (v >> 27n)) * 0x94d049bb133111ebn) & M64;
  v ^= v >> 31n;
  return s ^ ((v + 0x9e3779b9n + (s << 6n) + (s >> 2n)) & M64);
}

function v1Block(tokens, parent, lora, salt, extra, mm, wrap) {
  let s = BigInt(tokens.length) ^ ((parent * 0xbf58476d1ce4e5b9n) & M64);
  if (parent === 0n && salt !== undefined) s = step64(salt, s);
  tokens.forEach((token, i) => {
    s = step32(token, s, wrap);
    if (extra) s = step64(extra[i], s);
  });
  if (lora !== undefined) s = step64(lora, s);
  for (const key of mm) {
    const digest = Buffer.from(key.hash, "hex");
    for (let at = 0; at < 32; at += 4) s = step32(digest.readUInt32LE(at), s, wrap);
    s = step64(BigInt(key.start_offset), s);
  }
  return s;
}

const sha256 = (...parts) => createHash("sha256").update(Buffer.concat(parts)).digest();

const saltId = (text) => sha256(Buffer.from(text)).readBigUInt64LE();

function little(value, width) {
  const data = Buffer.alloc(8);
  data.writeBigUInt64LE(BigInt(value));
  return data.subarray(0, width);
}

function rootKey(lora, salt) {
  const ids = [lora, salt].filter((id) => id !== undefined).map((id) => little(id, 8));
  return sha256(Buffer.from([(lora !== undefined) + 2 * (salt !== undefined)]), ...ids);
}

const blockKey = (parent, tokens, width) =>
  sha256(parent, ...tokens.map((token) => (Buffer.isBuffer(token) ? token : little(token, width))));

// What vLLM hashes: null, integers, Buffers, strings, arrays.
function cbor(value) {
  if (value === null) return Buffer.from([0xf6]);
  const data = typeof value === "string" ? Buffer.from(value) : value;
  const count = typeof value === "number" ? value : data.length;
  const major = typeof value === "number" ? 0x00 : Buffer.isBuffer(value) ? 0x40 : Array.isArray(value) ? 0x80 : 0x60;
  const size = count < 24 ? 0 : count < 2 ** 8 ? 1 : count < 2 ** 16 ? 2 : count < 2 ** 32 ? 4 : 8;
  const head = [Buffer.from([major | (size ? 24 + Math.log2(size) : count)]), little(count, size).reverse()];
  return Buffer.concat([...head, ...(major === 0 ? [] : major === 0x80 ? value.map(cbor) : [data])]);
}

// Python's pickle, protocol 5.
function pickle(value) {
  const body = Buffer.concat([pickled(value), Buffer.from(".")]);
  return Buffer.concat([Buffer.from([0x80, 5, 0x95]), little(body.length, 8), body]);
}

function pickled(value) {
  const join = (...parts) => Buffer.concat(parts.map((part) => (Buffer.isBuffer(part) ? part : Buffer.from([part]))));
  if (value === null) return join(0x4e);
  if (Buffer.isBuffer(value)) return join(0x43, value.length, value, 0x94);
  if (typeof value === "string") return join(0x8c, Buffer.byteLength(value), Buffer.from(value), 0x94);
  if (typeof value === "number") {
    if (value < 2 ** 8) return join(0x4b, value);
    if (value < 2 ** 31) return value < 2 ** 16 ? join(0x4d, little(value, 2)) : join(0x4a, little(value, 4));
    let size = 4;
    while (value >= 2 ** (8 * size - 1)) size += 1;
    return join(0x8a, size, little(value, size));
  }
  const parts = value.map(pickled);
  if (parts.length === 0) return join(0x29);
  return parts.length < 4 ? join(...parts, 0x84 + parts.length, 0x94) : join(0x28, ...parts, 0x74, 0x94);
}

function vllmKey(label, parent, tokens, extra) {
  const dump = label.startsWith("x-vllm-sha256-cbor") ? cbor : pickle;
  return sha256(dump([parent ?? sha256(dump("vllm-none-hash")), tokens, extra?.length ? extra : null]));
}

// An extra key as vLLM hashes it since 0.31: its kind before it.
function kinded(key) {
  if (Array.isArray(key)) return ["mm", ...key];
  return [typeof key === "string" ? "cache_salt" : "prompt_embeds", key];
}

// Hash and key of each block; `given` is the input of a vector with its ids, keys and extra keys read.
export function chain(label, blocks, width, given) {
  const text = given.salt;
  const salt = given.salt_id ?? (text === undefined ? undefined : saltId(text));
  let [hash, key, at] = [given.parent ?? 0n, given.parent_key, 0];
  let keyed = !label.startsWith("v1_block_key");
  if (!key && hash === 0n && label.startsWith("v")) key = rootKey(given.lora_id, salt);
  if (!key && label === "x-sglang-sha256") {
    key = text === undefined ? Buffer.alloc(0) : sha256(Buffer.from(`sglang-cache-salt-v1\0${text}`));
  }
  return blocks.map((tokens, index) => {
    keyed ||= tokens.some(Buffer.isBuffer);
    if (label.startsWith("x-vllm")) {
      const own = [given.lora_name, index ? undefined : text].filter((part) => part !== undefined);
      const keys = given.extra_keys ? given.extra_keys[index] : own;
      key = vllmKey(label, key, tokens, label.endsWith("/kinds") ? keys?.map(kinded) : keys);
    } else if (key) {
      key = blockKey(key, tokens, width);
    } else if (keyed) {
      throw new Skipped(`no ${label} here`);
    }
    const last = label.startsWith("x-vllm") || label.startsWith("v2_sha256_low64");
    const extra = given.extra_ids?.slice(at, at + tokens.length);
    const mm = given.mm_keys?.[index] ?? [];
    hash = keyed
      ? key.readBigUInt64BE(last ? 24 : 0)
      : v1Block(tokens, hash, given.lora_id, salt, extra, mm, label !== "v1_block_key/no-wrap");
    at += tokens.length;
    return [hash, keyed ? key : undefined];
  });
}

const tokensOf = (item) => {
  if (typeof item === "string") return [Buffer.from(item, "hex")];
  return typeof item === "number" ? [item] : Array.from({ length: item.count }, (_, k) => item.from + k * item.step);
};

function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  return value !== null && typeof value === "object" ? Buffer.from(value.hex, "hex") : value;
}

const READ = {
  parent: BigInt,
  lora_id: BigInt,
  salt_id: BigInt,
  parent_key: (hex) => Buffer.from(hex, "hex"),
  extra_ids: (ids) => ids.map(BigInt),
  extra_keys: plain,
};

function scopeTag(text, key) {
  const hash = key === undefined ? createHash("sha256") : createHmac("sha256", Buffer.from(key, "hex"));
  return hash.update(`kvwire-scope-1\0${text}`).digest("hex").slice(0, 16);
}

// What a test expects, or the faults of its input.
export function answer(group, input) {
  const label = group.algorithm;
  const width = label.endsWith("/u64") ? 8 : (group.width ?? 4);
  const given = { ...input };
  for (const [name, read] of Object.entries(READ)) if (name in input) given[name] = read(input[name]);
  const tokens = (given.tokens ?? []).flatMap(tokensOf);
  const faults = [];
  if (tokens.some((t) => Buffer.isBuffer(t) && t.length !== 32)) faults.push("digest-length");
  if (tokens.some((t) => typeof t === "number" && !(t >= 0 && t < 2 ** (8 * width)))) faults.push("token-range");
  if (given.extra_ids && given.extra_ids.length !== tokens.length) faults.push("extra-ids-count");
  const ids = given.salt === undefined ? [] : [given.salt_id ?? saltId(given.salt), saltId(given.salt)];
  if (ids[0] !== ids[1]) faults.push("salt-id");
  if (faults.length) return [{}, faults];
  if (label === "v2_sha256/root") return [{ key: rootKey(given.lora_id, given.salt_id).toString("hex") }, []];
  if (label === "scope_tag") return [{ tag: scopeTag(given.salt, given.scope_key) }, []];
  const blocks = [];
  for (let at = 0; at < tokens.length; at += given.block_size) blocks.push(tokens.slice(at, at + given.block_size));
  const found = label === "salt_id" ? [[saltId(given.salt)]] : chain(label, blocks, width, given);
  const [last, key] = found.at(-1);
  const listed = found.map(([hash, own]) => (label.startsWith("v2_sha256/") ? own.toString("hex") : String(hash)));
  const signed = BigInt.asIntN(64, last);
  return [{ unsigned: String(last), signed: String(signed), key: key?.toString("hex"), chain: listed }, []];
}
