// Payloads: msgpack, and its JSON projection (projection.md). Integers are BigInt.

export class Pairs { // a map, in the order on the wire
  constructor(pairs) {
    this.pairs = pairs;
  }
}

export class Raw { // a string that is not UTF-8
  constructor(data) {
    this.json = { hex: data.toString("hex"), str: "not UTF-8" };
  }
}

export class Odd { // what JSON has no form for, projected, and its msgpack kind
  constructor(kind, json) {
    Object.assign(this, { kind, json });
  }
}

export class Truncated extends Error {}

// Formats by the first code of their family. The first has the width; each further code doubles it.
const FAMILIES = [
  [0xc4, "bin", 1], [0xc7, "ext", 1], [0xca, "float", 4], [0xcc, "uint", 1], [0xd0, "int", 1],
  [0xd4, "fixext", 1], [0xd9, "str", 1], [0xdc, "array", 2], [0xde, "map", 2],
];

export class Reader {
  constructor(data) {
    Object.assign(this, { data, at: 0 });
  }

  take(count) {
    this.at += count;
    if (this.at > this.data.length) throw new Truncated();
    return this.data.subarray(this.at - count, this.at);
  }

  value() {
    const code = this.take(1)[0];
    if (code < 0x80 || code > 0xdf) return BigInt(code < 0x80 ? code : code - 0x100);
    if (code < 0xc0) {
      const kind = code < 0x90 ? "map" : code < 0xa0 ? "array" : "str";
      return this.sized(kind, code & (kind === "str" ? 31 : 15));
    }
    if (code < 0xc4) {
      if (code === 0xc1) throw new Truncated();
      return [null, , false, true][code & 3];
    }
    const [first, kind, least] = FAMILIES.findLast((family) => family[0] <= code);
    const width = least << (code - first);
    if (kind === "fixext") return this.sized("ext", width);
    const field = this.take(width);
    if (kind === "float") {
      const bits = Buffer.alloc(8);
      if (width === 8) field.copy(bits);
      else bits.writeDoubleBE(field.readFloatBE());
      return new Odd(`float${8 * width}`, { float: "", bits: bits.toString("hex") });
    }
    const number = BigInt(`0x${field.toString("hex")}`);
    if (kind === "int") return BigInt.asIntN(8 * width, number);
    return kind === "uint" ? number : this.sized(kind, Number(number));
  }

  sized(kind, size) {
    if (kind === "array" || kind === "map") {
      const elements = [];
      for (let k = 0; k < size; k += 1) elements.push(kind === "map" ? [this.value(), this.value()] : this.value());
      return kind === "map" ? new Pairs(elements) : elements;
    }
    if (kind === "ext") {
      const type = this.take(1).readInt8();
      return new Odd("ext", { ext: type, hex: this.take(size).toString("hex") });
    }
    const data = this.take(size);
    if (kind === "bin") return new Odd("bin", { hex: data.toString("hex") });
    const text = data.toString();
    return Buffer.from(text).equals(data) ? text : new Raw(data);
  }
}

const ORDER = [
  "type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name",
  "extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality", "ownership", "scope",
  "session_id", "mm_keys", "hash_algo", "epoch", "v",
];
const FIELDS = ["block_hashes", "parent_block_hash", "lora_id"];
const TAKEN = [["hex"], ["hex", "str"], ["int"], ["bits", "float"], ["ext", "hex"], ["map"]].map(String);

// `field`: the value of a 64-bit field, or inside of one. Keys of objects name fields, wherever they stand.
export function project(value, field = false) {
  if (value instanceof Odd || value instanceof Raw) return value.json;
  if (Array.isArray(value)) return value.map((element) => project(element, field));
  if (value instanceof Pairs) {
    const keys = value.pairs.map(([key]) => key);
    const plain = keys.every((key) => typeof key === "string") && new Set(keys).size === keys.length;
    if (!plain || TAKEN.includes(String([...keys].sort()))) {
      return { map: value.pairs.map(([key, inner]) => [project(key), project(inner)]) };
    }
    const place = (key) => (ORDER.includes(key) ? ORDER.indexOf(key) : ORDER.length);
    const order = ([a], [b]) => place(a) - place(b) || Buffer.compare(Buffer.from(a), Buffer.from(b));
    const sorted = [...value.pairs].sort(order);
    return Object.fromEntries(sorted.map(([key, inner]) => [key, project(inner, FIELDS.includes(key))]));
  }
  if (typeof value !== "bigint") return value;
  if (field) return String(value);
  return Number.isSafeInteger(Number(value)) ? Number(value) : { int: String(value) };
}

export function projectPayload(value) {
  const projected = project(value);
  if (!Array.isArray(value) || value.length !== 3 || !Array.isArray(value[1])) return projected;
  return { ts: projected[0], events: projected[1], data_parallel_rank: projected[2] };
}

// Compact, members in order. Of a float its bits, which its text has to give when it is read.
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).filter(([, inner]) => inner !== undefined);
  if (members.length !== 2 || value.float === undefined || value.bits === undefined) {
    return `{${members.map(([key, inner]) => `${JSON.stringify(key)}:${canonical(inner)}`).join(",")}}`;
  }
  const number = Buffer.from(value.bits, "hex").readDoubleBE();
  const read = { inf: Infinity, "-inf": -Infinity, nan: NaN }[value.float] ?? Number(value.float);
  const same = value.float === "" || (Number.isNaN(number) ? value.float === "nan" : Object.is(read, number));
  return `float ${value.bits}${same ? "" : ` and not ${value.float}`}`;
}
