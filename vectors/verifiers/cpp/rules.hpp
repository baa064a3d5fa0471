// What a payload or a live message says, and the sentences of the standard that it breaks, by their ids.
#pragma once
#include "wire.hpp"

using Ids = std::vector<std::string>;
using Answer = std::pair<Json, Ids>;

struct Rules {
  Ids broken;

  bool unless(bool right, const std::string& id) {
    if (!right) broken.push_back(id);
    return right;
  }

  static const Node* find(const Node& map, const std::string& key) {
    for (size_t i = 0; map.kind == Node::map && i < map.items.size(); i += 2)
      if (map.items[i].kind == Node::text && map.items[i].data == key) return &map.items[i + 1];
    return nullptr;
  }

  static Node get(const Node& map, const std::string& key) {
    const Node* found = find(map, key);
    return found ? *found : Node{};
  }

  static bool within(const Node& node, uint64_t low, uint64_t high = UINT64_MAX) {
    return node.kind == Node::integer && !node.minus && low <= node.number && node.number <= high;
  }

  static bool digest(const Node& node) {
    const auto digit = [](unsigned char c) { return std::isxdigit(c) != 0; };
    return node.kind == Node::text && node.data.size() == 64 && std::all_of(node.data.begin(), node.data.end(), digit);
  }

  void everywhere(const Node& node) {  // what may stand nowhere in a payload
    unless(node.kind != Node::raw, "KVW-ENV-006");
    unless(node.kind != Node::ext, "KVW-EVT-004");
    std::set<std::string> keys;
    for (size_t i = 0; i < node.items.size(); i++) {
      const Node& item = node.items[i];
      everywhere(item);
      if (node.kind == Node::map && i % 2 == 0 &&
          unless(item.kind == Node::text || item.kind == Node::raw, "KVW-EVT-002"))
        unless(keys.insert(item.data).second, "KVW-EVT-003");
    }
  }

  void batch(const Node& node) {
    everywhere(node);
    if (!unless(node.kind == Node::array && node.items.size() == 3, "KVW-BAT-001")) return;
    const Node &ts = node.items[0], &events = node.items[1], &rank = node.items[2];
    if (unless(ts.kind == Node::float64, "KVW-BAT-002")) {
      const double seconds = as_double(ts.number);
      unless(seconds >= 0 && seconds < 1e11, "KVW-BAT-003");
    }
    unless(within(rank, 0, INT32_MAX), "KVW-RNK-001");
    if (!unless(events.kind == Node::array, "KVW-BAT-005")) return;
    std::set<std::string> announced;
    for (const Node& pairs : events.items) {
      const Node type = get(pairs, "type");
      unless(type.kind == Node::text, "KVW-EVT-001");
      const bool names_blocks = type.data == "BlockStored" || type.data == "BlockRemoved";
      if (names_blocks || type.data == "AllBlocksCleared") event(pairs, type.data);
      if (names_blocks) announced.insert(get(pairs, "hash_algo").data);
      unless(!find(pairs, "v") || within(*find(pairs, "v"), 0), "KVW-EVT-018");
      unless(!find(pairs, "cache_salt"), "KVW-EVT-019");
    }
    unless(announced.size() < 2, "KVW-HSH-003");
  }

  // A location update: hashes that are in another medium than the device, and nothing more.
  static bool location(const Node& pairs) {
    const Node tokens = get(pairs, "token_ids"), size = get(pairs, "block_size"), medium = get(pairs, "medium");
    const bool plain = tokens.kind == Node::array && tokens.items.empty() && within(size, 0, 0) &&
                       get(pairs, "parent_block_hash").kind == Node::null;
    return plain && !get(pairs, "block_hashes").items.empty() && medium.kind == Node::text && medium.data != "GPU";
  }

  static bool mm_key(const Node& key) {
    static const std::set<std::string> known{"type", "hash", "start_offset", "uuid"};
    bool right = key.kind == Node::map && get(key, "type").kind == Node::text && get(key, "type").data == "mm_key";
    for (size_t i = 0; right && i < key.items.size(); i += 2)
      right = key.items[i].kind == Node::text && known.count(key.items[i].data);
    const Node* uuid = find(key, "uuid");
    return right && digest(get(key, "hash")) && within(get(key, "start_offset"), 0) &&
           (!uuid || uuid->kind == Node::text);
  }

  void event(const Node& pairs, const std::string& type) {
    const bool stored = type == "BlockStored";
    const Node medium = get(pairs, "medium");
    unless(medium.kind == Node::null || (medium.kind == Node::text && !medium.data.empty()), "KVW-EVT-015");
    for (const char* key :
         {"lora_name", "kv_cache_spec_kind", "hash_algo", "locality", "ownership", "scope", "session_id", "epoch"})
      unless(get(pairs, key).kind == Node::null || get(pairs, key).kind == Node::text, "KVW-EVT-021");
    for (const char* key : {"lora_id", "group_idx", "kv_cache_spec_sliding_window"})
      unless(get(pairs, key).kind == Node::null || within(get(pairs, key), 0), "KVW-EVT-021");
    if (type == "AllBlocksCleared") return;
    std::vector<std::string> required{"block_hashes", "medium"};
    if (stored)
      required.insert(required.end(), {"parent_block_hash", "token_ids", "block_size", "lora_id", "lora_name"});
    for (const std::string& key : required)
      if (!unless(find(pairs, key), stored ? "KVW-EVT-005" : "KVW-EVT-006")) return;
    const Node hashes = get(pairs, "block_hashes"), parent = get(pairs, "parent_block_hash");
    bool integers = hashes.kind == Node::array && (parent.kind == Node::null || parent.kind == Node::integer),
         distinct = true;
    std::set<uint64_t> seen;
    if (parent.kind == Node::integer) seen.insert(parent.number);
    for (const Node& hash : hashes.items) {
      integers = integers && hash.kind == Node::integer;
      distinct = seen.insert(hash.number).second && distinct;
    }
    if (unless(integers, "KVW-EVT-007")) unless(distinct || !stored || location(pairs), "KVW-CHN-004");
    if (!stored) return;
    const Node scope = get(pairs, "scope"), extra = get(pairs, "extra_keys");
    const auto lower = [](unsigned char c) { return std::isdigit(c) || (c >= 'a' && c <= 'f'); };
    const bool tag = scope.data.size() == 16 && std::all_of(scope.data.begin(), scope.data.end(), lower);
    unless(scope.kind != Node::text || tag, "KVW-EVT-028");
    bool shaped = extra.kind == Node::array && (hashes.kind != Node::array || extra.items.size() == hashes.items.size());
    for (const Node& keys : extra.items) shaped = shaped && (keys.kind == Node::null || keys.kind == Node::array);
    unless(extra.kind == Node::null || shaped, "KVW-EVT-029");
    tokens(pairs, hashes);
  }

  void tokens(const Node& pairs, const Node& hashes) {
    const Node tokens = get(pairs, "token_ids"), size = get(pairs, "block_size"), keys = get(pairs, "mm_keys");
    const std::string algorithm = get(pairs, "hash_algo").data;
    const bool narrow = algorithm.size() > 4 && algorithm.substr(algorithm.size() - 4) == "/u32";
    bool right = tokens.kind == Node::array, digests = true, texts = false;
    for (const Node& token : tokens.items) {
      right = right && (token.kind == Node::text || within(token, 0, narrow ? INT32_MAX : UINT32_MAX));
      digests = digests && (token.kind != Node::text || digest(token));
      texts = texts || token.kind == Node::text;
    }
    if (unless(right, "KVW-EVT-010") && unless(digests, "KVW-EVT-011"))
      unless(!texts || keys.kind != Node::null, "KVW-EVT-012");
    if (location(pairs)) return;
    const size_t count = hashes.items.size();
    if (unless(within(size, 1), "KVW-EVT-014") && tokens.kind == Node::array && hashes.kind == Node::array)
      unless(count > 0 && tokens.items.size() == size.number * count, "KVW-EVT-013");
    right = keys.kind == Node::array && (hashes.kind != Node::array || keys.items.size() == count);
    bool known = true;
    for (const Node& list : keys.items) {
      right = right && list.kind == Node::array;
      known = known && std::all_of(list.items.begin(), list.items.end(), mm_key);
    }
    if (unless(keys.kind == Node::null || right, "KVW-EVT-012") && right && unless(known, "KVW-EVT-030"))
      content(tokens, size, keys);
  }

  // Each digest token has a key in the list of its block, and each key at offset 0 a digest token.
  void content(const Node& tokens, const Node& size, const Node& keys) {
    if (!within(size, 1) || std::none_of(tokens.items.begin(), tokens.items.end(), digest)) return;
    const auto lower = [](std::string text) {
      for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return text;
    };
    for (size_t block = 0; block < keys.items.size(); block++) {
      std::set<std::string> begun, there;
      for (const Node& key : keys.items[block].items)
        if (get(key, "start_offset").number == 0) begun.insert(lower(get(key, "hash").data));
      const size_t end = std::min<size_t>((block + 1) * size.number, tokens.items.size());
      for (size_t at = block * size.number; at < end; at++)
        if (digest(tokens.items[at])) there.insert(lower(tokens.items[at].data));
      unless(begun == there, "KVW-EVT-031");
    }
  }
};

// The projection of a payload, if it begins with a value.
inline Answer answer_wire(const Json&, const Json& input) {
  std::optional<Json> projection;
  Ids broken;
  Json payloads = input.value("encodings", Json::array());
  payloads.insert(payloads.begin(), input["payload"]);
  for (const Json& payload : payloads) {
    Reader reader{unhex(payload)};
    Rules rules;
    try {
      const Node node = reader.value();
      rules.batch(node);
      rules.unless(reader.at == reader.data.size(), "KVW-ENV-006");
      const Json found = project_payload(node);
      if (!projection) projection = found;
      rules.unless(canonical(found) == canonical(*projection), "KVW-EVT-025");
    } catch (const Truncated&) {
      return {Json::object(), {"KVW-ENV-006"}};
    }
    if (std::count(rules.broken.begin(), rules.broken.end(), "KVW-ENV-006")) rules.broken = {"KVW-ENV-006"};
    broken.insert(broken.end(), rules.broken.begin(), rules.broken.end());
  }
  return {{{"projection", *projection}}, broken};
}

inline Answer answer_envelope(const Json&, const Json& input) {
  const Json& frames = input["frames"];
  if (frames.size() != 3) return {Json::object(), {"KVW-ENV-001"}};
  const Bytes topic = unhex(frames[0]), sequence = unhex(frames[1]), payload = unhex(frames[2]);
  Rules rules;
  rules.unless(utf8(topic), "KVW-ENV-004");
  rules.unless(sequence.size() == 8, "KVW-ENV-005");
  rules.unless(!payload.empty(), "KVW-ENV-006");
  rules.unless(sequence != Bytes(8, '\xff'), "KVW-SEQ-006");
  const std::string decimal = std::to_string(number(sequence, true));
  return {{{"topic", frames[0]}, {"sequence", decimal}, {"payload", frames[2]}}, rules.broken};
}
