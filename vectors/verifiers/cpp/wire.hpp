// Payloads: msgpack, and its JSON projection (projection.md).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "hashing.hpp"

using Json = nlohmann::ordered_json;

inline std::string hex(const Bytes& data) {
  static const char* digits = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : data) (text += digits[byte >> 4]) += digits[byte & 15];
  return text;
}

inline Bytes unhex(const std::string& text) {
  Bytes data;
  for (size_t i = 0; i + 1 < text.size(); i += 2) data += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return data;
}

struct Truncated : std::exception {};

struct Node {  // a msgpack value; `number`: an integer modulo 2^64, or the bits of a double; a map's items: key, value,
               // …
  enum Kind { null, boolean, integer, float32, float64, text, raw, binary, ext, array, map } kind = null;
  uint64_t number = 0;
  bool minus = false;
  Bytes data = {};
  std::vector<Node> items = {};
};

inline double as_double(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, 8);
  return value;
}

inline bool utf8(const Bytes& data) {
  try {
    Json(data).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

struct Reader {
  Bytes data;
  size_t at = 0;

  Bytes take(uint64_t count) {
    if (count > data.size() - at) throw Truncated();
    at += count;
    return data.substr(at - count, count);
  }

  uint64_t size(size_t width) { return number(take(width), true); }

  Node value() {
    const auto code = static_cast<uint8_t>(take(1)[0]);
    if (code < 0x80) return {Node::integer, code};
    if (code > 0xdf) return {Node::integer, static_cast<uint64_t>(static_cast<int8_t>(code)), true};
    if (code < 0x90) return list(Node::map, 2 * (code & 15));
    if (code < 0xa0) return list(Node::array, code & 15);
    if (code < 0xc0) return text(code & 31);
    if (code == 0xc0) return {};
    if (code == 0xc1) throw Truncated();
    if (code < 0xc4) return {Node::boolean, static_cast<uint64_t>(code & 1)};
    if (code < 0xc7) return {Node::binary, 0, false, take(size(1 << (code - 0xc4)))};
    if (code < 0xca) return ext(size(1 << (code - 0xc7)));
    if (code == 0xca) {
      const auto bits = static_cast<uint32_t>(size(4));
      float narrow;
      std::memcpy(&narrow, &bits, 4);
      const double wide = narrow;
      Node node{Node::float32};
      std::memcpy(&node.number, &wide, 8);
      return node;
    }
    if (code == 0xcb) return {Node::float64, size(8)};
    if (code < 0xd0) return {Node::integer, size(1 << (code - 0xcc))};
    if (code < 0xd4) {
      const int width = 1 << (code - 0xd0), shift = 64 - 8 * width;
      const auto wide = static_cast<int64_t>(size(width) << shift) >> shift;
      return {Node::integer, static_cast<uint64_t>(wide), wide < 0};
    }
    if (code < 0xd9) return ext(1 << (code - 0xd4));
    if (code < 0xdc) return text(size(1 << (code - 0xd9)));
    if (code < 0xde) return list(Node::array, size(2 << (code - 0xdc)));
    return list(Node::map, 2 * size(2 << (code - 0xde)));
  }

  Node text(uint64_t size) {
    Bytes taken = take(size);
    return {utf8(taken) ? Node::text : Node::raw, 0, false, taken};
  }

  Node ext(uint64_t size) {
    const auto type = static_cast<int8_t>(take(1)[0]);
    return {Node::ext, static_cast<uint64_t>(type), type < 0, take(size)};
  }

  Node list(Node::Kind kind, uint64_t size) {
    Node node{kind};
    for (; size > 0; size--) node.items.push_back(value());
    return node;
  }
};

inline int place(const std::string& key) {
  static const std::vector<std::string> order{"type",
                                              "block_hashes",
                                              "parent_block_hash",
                                              "token_ids",
                                              "block_size",
                                              "lora_id",
                                              "medium",
                                              "lora_name",
                                              "extra_keys",
                                              "group_idx",
                                              "kv_cache_spec_kind",
                                              "kv_cache_spec_sliding_window",
                                              "locality",
                                              "ownership",
                                              "scope",
                                              "session_id",
                                              "mm_keys",
                                              "hash_algo",
                                              "epoch",
                                              "v"};
  return std::find(order.begin(), order.end(), key) - order.begin();
}

// `field`: the value of a 64-bit field, or inside of one. Keys of objects name fields, wherever they stand.
inline Json project(const Node& node, bool field = false) {
  static const std::set<std::set<std::string>> taken{{"hex"},           {"hex", "str"}, {"int"},
                                                     {"float", "bits"}, {"ext", "hex"}, {"map"}};
  const std::string decimal =
      node.minus ? std::to_string(static_cast<int64_t>(node.number)) : std::to_string(node.number);
  switch (node.kind) {
    case Node::null: return nullptr;
    case Node::boolean: return node.number == 1;
    case Node::integer:
      if (field) return decimal;
      if ((node.minus ? -node.number : node.number) >> 53) return {{"int", decimal}};
      return static_cast<int64_t>(node.number);
    case Node::float32:
    case Node::float64: return {{"float", ""}, {"bits", hex(big(node.number, 8))}};
    case Node::text: return node.data;
    case Node::raw: return {{"hex", hex(node.data)}, {"str", "not UTF-8"}};
    case Node::binary: return {{"hex", hex(node.data)}};
    case Node::ext: return {{"ext", static_cast<int64_t>(node.number)}, {"hex", hex(node.data)}};
    case Node::array: {
      Json list = Json::array();
      for (const Node& item : node.items) list.push_back(project(item, field));
      return list;
    }
    case Node::map: break;
  }
  std::map<std::pair<int, std::string>, const Node*> members;
  std::set<std::string> keys;
  bool plain = true;
  Json list = Json::array(), object = Json::object();
  for (size_t i = 0; i < node.items.size(); i += 2) {
    const Node& key = node.items[i];
    plain = plain && key.kind == Node::text && keys.insert(key.data).second;
    members[{place(key.data), key.data}] = &node.items[i + 1];
    list.push_back(Json::array({project(key), project(node.items[i + 1])}));
  }
  if (!plain || taken.count(keys)) return {{"map", list}};
  for (const auto& [at, value] : members)
    object[at.second] = project(*value, at.first == 1 || at.first == 2 || at.first == 5);
  return object;
}

inline Json project_payload(const Node& node) {
  const Json projected = project(node);
  if (node.kind != Node::array || node.items.size() != 3 || node.items[1].kind != Node::array) return projected;
  return {{"ts", projected[0]}, {"events", projected[1]}, {"data_parallel_rank", projected[2]}};
}

// Compact, members in order. Of a float its bits, which its text has to give when it is read.
inline std::string canonical(const Json& value) {
  std::string text;
  if (value.is_object() && value.size() == 2 && value.contains("float") && value.contains("bits")) {
    const double number = as_double(std::stoull(value["bits"].get<std::string>(), nullptr, 16));
    text = value["float"];
    const double read = std::strtod(text.c_str(), nullptr);
    const bool same = read == number && std::signbit(read) == std::signbit(number);
    const bool right = text.empty() || same || (text == "nan" && std::isnan(number));
    return "float " + value["bits"].get<std::string>() + (right ? "" : " and not " + text);
  }
  if (value.is_object())
    for (const auto& [key, inner] : value.items())
      text += (text.empty() ? "" : ",") + Json(key).dump() + ":" + canonical(inner);
  else if (value.is_array())
    for (const Json& inner : value) text += (text.empty() ? "" : ",") + canonical(inner);
  else
    return value.dump();
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}
