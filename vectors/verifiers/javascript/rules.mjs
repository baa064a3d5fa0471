// What a payload, a message or an endpoint says, and the sentences of the standard that it breaks, by their ids.
import { Odd, Pairs, Raw, Reader, Truncated, canonical, projectPayload } from "./wire.mjs";

const STORED = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"];
const TEXTS = ["lora_name", "kv_cache_spec_kind", "hash_algo", "locality", "ownership", "scope", "session_id", "epoch"];
const COUNTS = ["lora_id", "group_idx", "kv_cache_spec_sliding_window"];
const EVENTS = ["BlockStored", "BlockRemoved", "AllBlocksCleared"];
const MM_KEY = ["type", "hash", "start_offset", "uuid"];

const integer = (value, low, high) => typeof value === "bigint" && value >= low && value < high;
const count = (value) => integer(value, 0n, 1n << 64n);
const digest = (value) => typeof value === "string" && /^[0-9a-fA-F]{64}$/.test(value);
const texts = (pairs) => pairs.filter(([key]) => typeof key === "string");
const named = (value) => Object.fromEntries(value instanceof Pairs ? texts(value.pairs) : []);
const given = (value) => value !== undefined && value !== null;

// What may stand nowhere in a payload.
function* everywhere(value) {
  if (value instanceof Raw) yield "KVW-ENV-006";
  if (value instanceof Odd && value.kind === "ext") yield "KVW-EVT-004";
  if (value instanceof Pairs) {
    const named = texts(value.pairs).map(([key]) => key);
    if (named.length < value.pairs.length) yield "KVW-EVT-002";
    if (new Set(named).size < named.length) yield "KVW-EVT-003";
    yield* everywhere(value.pairs.flat());
  }
  if (Array.isArray(value)) for (const inner of value) yield* everywhere(inner);
}

function* broken(payload) {
  yield* everywhere(payload);
  if (!Array.isArray(payload) || payload.length !== 3) return yield "KVW-BAT-001";
  const [ts, events, rank] = payload;
  if (ts?.kind !== "float64") yield "KVW-BAT-002";
  else {
    const seconds = Buffer.from(ts.json.bits, "hex").readDoubleBE();
    if (!(seconds >= 0 && seconds < 1e11)) yield "KVW-BAT-003";
  }
  if (!integer(rank, 0n, 1n << 31n)) yield "KVW-RNK-001";
  if (!Array.isArray(events)) return yield "KVW-BAT-005";
  const announced = new Set();
  for (const event of events.map(named)) {
    if (typeof event.type !== "string") yield "KVW-EVT-001";
    if (EVENTS.includes(event.type)) yield* brokenEvent(event);
    if (EVENTS.slice(0, 2).includes(event.type)) announced.add(event.hash_algo);
    if (!count(event.v ?? 1n)) yield "KVW-EVT-018";
    if ("cache_salt" in event) yield "KVW-EVT-019";
  }
  if (announced.size > 1) yield "KVW-HSH-003";
}

function* brokenEvent(event) {
  const stored = event.type === "BlockStored";
  const { medium } = event;
  if (given(medium) && (typeof medium !== "string" || medium === "")) yield "KVW-EVT-015";
  const texts = TEXTS.every((key) => !given(event[key]) || typeof event[key] === "string");
  if (!texts || COUNTS.some((key) => given(event[key]) && !count(event[key]))) yield "KVW-EVT-021";
  if (event.type === "AllBlocksCleared") return;
  if (!(stored ? STORED : ["block_hashes", "medium"]).every((key) => key in event)) {
    return yield stored ? "KVW-EVT-005" : "KVW-EVT-006";
  }
  const { block_hashes: hashes, parent_block_hash: parent, scope, extra_keys: extra } = event;
  const chain = Array.isArray(hashes) ? [...hashes, ...(given(parent) ? [parent] : [])] : [""];
  if (!chain.every((hash) => typeof hash === "bigint")) yield "KVW-EVT-007";
  else if (stored && !location(event) && new Set(chain.map((hash) => BigInt.asUintN(64, hash))).size < chain.length) {
    yield "KVW-CHN-004";
  }
  if (!stored) return;
  if (typeof scope === "string" && !/^[0-9a-f]{16}$/.test(scope)) yield "KVW-EVT-028";
  if (given(extra)) {
    const right = Array.isArray(extra) && extra.every((keys) => keys === null || Array.isArray(keys));
    if (!right || (Array.isArray(hashes) && extra.length !== hashes.length)) yield "KVW-EVT-029";
  }
  yield* brokenTokens(event, Array.isArray(hashes) ? hashes : undefined);
}

// A location update: hashes that are in another medium than the device, and nothing more.
function location({ block_hashes: hashes, token_ids: tokens, block_size: size, parent_block_hash: parent, medium }) {
  const plain = Array.isArray(tokens) && tokens.length === 0 && size === 0n && parent === null;
  return plain && hashes.length > 0 && typeof medium === "string" && medium !== "GPU";
}

function mmKey(value) {
  const key = named(value);
  if (!(value instanceof Pairs) || value.pairs.some(([name]) => !MM_KEY.includes(name))) return false;
  const right = key.type === "mm_key" && digest(key.hash) && count(key.start_offset);
  return right && (key.uuid === undefined || typeof key.uuid === "string");
}

function* brokenTokens(event, hashes) {
  const { token_ids: tokens, block_size: size, mm_keys: keys } = event;
  const limit = String(event.hash_algo).endsWith("/u32") ? 1n << 31n : 1n << 32n;
  const texts = Array.isArray(tokens) ? tokens.filter((token) => typeof token === "string") : [];
  if (!Array.isArray(tokens) || !tokens.every((token) => typeof token === "string" || integer(token, 0n, limit))) {
    yield "KVW-EVT-010";
  } else if (!texts.every(digest)) yield "KVW-EVT-011";
  else if (!given(keys) && texts.length) yield "KVW-EVT-012";
  if (location(event)) return;
  if (!count(size) || size === 0n) yield "KVW-EVT-014";
  else if (hashes && Array.isArray(tokens) && !(hashes.length && tokens.length === Number(size) * hashes.length)) {
    yield "KVW-EVT-013";
  }
  if (!given(keys)) return;
  if (!Array.isArray(keys) || !keys.every(Array.isArray) || (hashes && keys.length !== hashes.length)) {
    yield "KVW-EVT-012";
  } else if (!keys.flat().every(mmKey)) yield "KVW-EVT-030";
  else if (texts.some(digest) && count(size)) {
    for (const [index, block] of keys.entries()) {
      const begun = block.map(named).filter((key) => key.start_offset === 0n).map((key) => key.hash.toLowerCase());
      const there = tokens.slice(index * Number(size), (index + 1) * Number(size)).filter(digest);
      const sorted = (digests) => String([...new Set(digests.map((digits) => digits.toLowerCase()))].sort());
      if (sorted(begun) !== sorted(there)) yield "KVW-EVT-031";
    }
  }
}

// The projection of a payload, if it begins with a value.
export function answerWire(_, input) {
  const found = [];
  const breaks = [];
  for (const payload of [input.payload, ...(input.encodings ?? [])]) {
    const reader = new Reader(Buffer.from(payload, "hex"));
    try {
      const value = reader.value();
      found.push(projectPayload(value));
      breaks.push(...(reader.at === reader.data.length ? broken(value) : ["KVW-ENV-006"]));
    } catch (error) {
      if (error instanceof Truncated) return [{}, ["KVW-ENV-006"]];
      throw error;
    }
  }
  if (new Set(found.map(canonical)).size > 1) breaks.push("KVW-EVT-025");
  return [{ projection: found[0] }, breaks.includes("KVW-ENV-006") ? ["KVW-ENV-006"] : breaks];
}

const bytes = (frames) => frames.map((frame) => Buffer.from(frame, "hex"));
const END = Buffer.alloc(8, 0xff);
const WILDCARDS = ["*", "0.0.0.0", "[::]"];

export function answerEnvelope(_, input) {
  const frames = bytes(input.frames);
  if (frames.length !== 3) return [{}, ["KVW-ENV-001"]];
  const [topic, number, payload] = frames;
  const breaks = [];
  if (!Buffer.from(topic.toString()).equals(topic)) breaks.push("KVW-ENV-004");
  if (number.length !== 8) breaks.push("KVW-ENV-005");
  if (payload.length === 0) breaks.push("KVW-ENV-006");
  if (number.equals(END)) breaks.push("KVW-SEQ-006");
  const sequence = number.length === 8 ? String(number.readBigUInt64BE()) : "";
  return [{ topic: topic.toString("hex"), sequence, payload: payload.toString("hex") }, breaks];
}

export function answerReplay(_, input) {
  if (input.frames) {
    const [delimiter, start, ...more] = bytes(input.frames);
    if (!start || more.length) return [{}, ["KVW-REP-005"]];
    if (delimiter.length || start.length !== 8) return [{}, ["KVW-REP-006"]];
    return [{ start: String(start.readBigUInt64BE()) }, []];
  }
  const messages = input.messages.map(bytes);
  const bare = messages.length > 0 && messages.every((frames) => frames.length === 3);
  const live = new Map((input.live ?? []).map((frames) => [frames[1], frames]));
  const breaks = bare ? ["KVW-REP-001", "KVW-REP-003"] : [];
  const numbers = [];
  const ends = [];
  messages.forEach((frames, at) => {
    const [delimiter, topic, number, payload] = bare ? [frames[0], Buffer.alloc(0), frames[1], frames[2]] : frames;
    if (frames.length !== (bare ? 3 : 4) || delimiter.length || number.length !== 8) breaks.push("KVW-REP-001");
    else if (number.equals(END)) {
      ends.push(at);
      if (topic.length) breaks.push("KVW-REP-003");
      if (payload.length && !input.extensions?.includes("end_payload")) breaks.push("KVW-REP-014");
      else if (payload.length && !twoNumbers(payload)) breaks.push("KVW-REP-015");
    } else {
      const sent = live.get(number.toString("hex"));
      numbers.push(number.readBigUInt64BE());
      if (sent && String(sent.slice(bare ? 1 : 0)) !== String(input.messages[at].slice(1))) breaks.push("KVW-REP-001");
    }
  });
  if (ends.length > 1 || (ends.length && ends[0] !== messages.length - 1)) breaks.push("KVW-REP-003");
  const rising = numbers.every((number, at) => number > (at ? numbers[at - 1] : BigInt(input.start) - 1n));
  if (!rising) breaks.push("KVW-REP-002");
  const hole = numbers.length > 0 && numbers.at(-1) - numbers[0] >= BigInt(numbers.length);
  const outcome = ends.length ? (numbers.length ? (hole ? "hole" : "complete") : "empty") : "no-end";
  return [{ form: bare ? "replay-bare" : "replay-topic", outcome, numbers: numbers.map(String) }, breaks];
}

function twoNumbers(payload) {
  const value = new Reader(payload).value();
  return Array.isArray(value) && value.length === 2 && value.every(count);
}

export function answerEndpoint(_, input) {
  const { rank, world } = input;
  const answer = { names: [] };
  const breaks = [];
  const ports = [];
  const refuse = (id, ...endpoints) => {
    breaks.push(id);
    answer.names.push(...endpoints);
  };
  if (rank < 0 || rank >= world) return [{}, ["KVW-END-017"]];
  for (const [role, endpoint] of [["publish", input.endpoint], ["replay", input.replay]]) {
    if (endpoint === undefined) continue;
    const [, scheme, place] = /^([^:]*):\/\/(.*)$/s.exec(endpoint) ?? [];
    const [, host, digits] = /^(.*):([0-9]+)$/s.exec(place ?? "") ?? [];
    const suffix = (index) => (index ? `_dp${index}` : "");
    answer[role] = endpoint + suffix(rank);
    if (endpoint === "" || place === "") refuse("KVW-END-008", endpoint);
    else if (!["tcp", "ipc", "inproc"].includes(scheme)) refuse("KVW-END-007", endpoint);
    else if (scheme === "ipc" && Buffer.byteLength(place + suffix(world - 1)) > 107) refuse("KVW-END-011", endpoint);
    else if (scheme === "tcp" && /^(:|\[[^\]]*$)/s.test(place)) refuse("KVW-END-016", endpoint);
    else if (scheme === "tcp" && digits === undefined) refuse("KVW-END-004", endpoint);
    else if (scheme === "tcp") {
      const port = Number(digits);
      if (port > 65535 || (port === 0 && !input.ephemeral)) refuse("KVW-END-005", endpoint);
      else if (port + world - 1 > 65535) refuse("KVW-END-006", endpoint);
      ports.push({ host, port });
      answer[role] = `tcp://${host}:${port + rank}`;
    }
  }
  const [one, other] = ports;
  const names = (endpoint) => Array.from({ length: input.ranks_per_host }, (_, at) => endpoint + (at ? `_dp${at}` : ""));
  if (input.endpoint === input.replay) refuse("KVW-END-010", input.endpoint);
  else if (other) {
    const together = one.host === other.host || [one.host, other.host].some((host) => WILDCARDS.includes(host));
    if (together && Math.abs(one.port - other.port) < input.ranks_per_host) {
      refuse("KVW-END-009", input.endpoint, input.replay);
    }
  } else if (!one && input.replay !== undefined) {
    const replays = names(input.replay);
    if (names(input.endpoint).some((name) => replays.includes(name))) {
      refuse("KVW-END-010", input.endpoint, input.replay);
    }
  }
  return [answer, breaks];
}
