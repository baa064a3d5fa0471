// The hash functions of the standard, from its text (hashing.md). OpenSSL for SHA-256.
#pragma once
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using Bytes = std::string;  // not text: any bytes
using Id = std::optional<uint64_t>;

struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Token {  // an id, or the digest of a multimodal item
  uint64_t id = 0;
  Bytes digest;
};
using Block = std::vector<Token>;

struct Made {  // the hash of a block, and its key if the hash is taken from one
  uint64_t hash = 0;
  Bytes key;
};

// What vLLM hashes: null, an integer, bytes, a text, or a list.
struct Value {
  enum { null, integer, bytes, text, list } kind = null;
  uint64_t number = 0;
  std::string data = {};
  std::vector<Value> items = {};
};

struct Scope {  // what a chain is made of, as the input of a vector names it
  Id parent, lora, salt;
  std::optional<Bytes> parent_key;
  std::optional<std::string> lora_name, text;
  std::optional<std::vector<uint64_t>> extra;
  std::vector<std::vector<std::pair<Bytes, uint64_t>>> mm;  // digest and offset, per block
  std::optional<std::vector<Value>> extra_keys;
};

inline uint64_t step32(uint64_t x, uint64_t s, bool wrap) {
  auto v = static_cast<uint32_t>(x);
  v = (v ^ (v >> 16)) * UINT32_C(0x045d9f3b);
  v = (v ^ (v >> 16)) * UINT32_C(0x045d9f3b);
  v = v ^ (v >> 16);
  uint64_t sum = wrap ? uint64_t{v + UINT32_C(0x9e3779b9)} : uint64_t{v} + 0x9e3779b9;
  return s ^ (sum + (s << 6) + (s >> 2));
}

inline uint64_t step64(uint64_t x, uint64_t s) {
  uint64_t v = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  v = (v ^ (v >> 27)) * 0x94d049bb133111eb;
  v = v ^ (v >> 31);
  return s ^ (v + 0x9e3779b9 + (s << 6) + (s >> 2));
}

inline uint64_t number(const Bytes& data, bool big) {
  uint64_t value = 0;
  for (size_t i = 0; i < data.size(); i++)
    value = value << 8 | static_cast<uint8_t>(data[big ? i : data.size() - 1 - i]);
  return value;
}

inline Bytes little(uint64_t value, size_t width) {
  Bytes data;
  for (size_t i = 0; i < width; i++) data += static_cast<char>(value >> 8 * i);
  return data;
}

inline Bytes big(uint64_t value, size_t width) {
  Bytes data = little(value, width);
  return {data.rbegin(), data.rend()};
}

inline Bytes sha256(const Bytes& data) {
  Bytes digest(32, 0);
  SHA256(reinterpret_cast<const uint8_t*>(data.data()), data.size(), reinterpret_cast<uint8_t*>(digest.data()));
  return digest;
}

// The first eight bytes of a digest, or of an HMAC under a key.
inline Bytes scope_tag(const std::string& text, const std::optional<Bytes>& key) {
  const Bytes message = Bytes("kvwire-scope-1\0", 15) + text;
  Bytes digest = sha256(message);
  unsigned int size = 32;
  if (key)
    HMAC(EVP_sha256(), key->data(), static_cast<int>(key->size()), reinterpret_cast<const uint8_t*>(message.data()),
         message.size(), reinterpret_cast<uint8_t*>(digest.data()), &size);
  return digest.substr(0, 8);
}

inline uint64_t salt_id(const std::string& text) { return number(sha256(text).substr(0, 8), false); }

inline uint64_t v1_block(const Block& tokens, uint64_t parent, const Scope& given, size_t index, size_t at, bool wrap) {
  uint64_t s = tokens.size() ^ (parent * 0xbf58476d1ce4e5b9);
  if (parent == 0 && given.salt) s = step64(*given.salt, s);
  for (size_t i = 0; i < tokens.size(); i++) {
    s = step32(tokens[i].id, s, wrap);
    if (given.extra) s = step64((*given.extra)[at + i], s);
  }
  if (given.lora) s = step64(*given.lora, s);
  if (given.mm.empty()) return s;
  for (const auto& [digest, offset] : given.mm.at(index)) {
    for (size_t j = 0; j < 32; j += 4) s = step32(number(digest.substr(j, 4), false), s, wrap);
    s = step64(offset, s);
  }
  return s;
}

inline Bytes root_key(Id lora, Id salt) {
  Bytes data(1, static_cast<char>((lora ? 1 : 0) + (salt ? 2 : 0)));
  if (lora) data += little(*lora, 8);
  if (salt) data += little(*salt, 8);
  return sha256(data);
}

inline Bytes block_key(Bytes data, const Block& tokens, size_t width) {
  for (const Token& token : tokens) data += token.digest.empty() ? little(token.id, width) : token.digest;
  return sha256(data);
}

inline Bytes cbor(const Value& value) {
  if (value.kind == Value::null) return "\xf6";
  const uint64_t count = value.kind == Value::integer ? value.number
                         : value.kind == Value::list  ? value.items.size()
                                                      : value.data.size();
  const int major = value.kind == Value::integer ? 0x00
                    : value.kind == Value::bytes ? 0x40
                    : value.kind == Value::text  ? 0x60
                                                 : 0x80;
  Bytes data;
  if (count < 24) {
    data = static_cast<char>(major | count);
  } else {
    int code = 24;
    while (code < 27 && count >> (8 << (code - 24))) code++;
    data = static_cast<char>(major | code) + big(count, 1 << (code - 24));
  }
  data += value.data;
  for (const Value& item : value.items) data += cbor(item);
  return data;
}

inline Bytes pickled(const Value& value) {
  const uint64_t n = value.number;
  const auto size = static_cast<char>(value.data.size());
  switch (value.kind) {
    case Value::null: return "N";
    case Value::bytes: return Bytes("C") + size + value.data + '\x94';
    case Value::text: return Bytes("\x8c") + size + value.data + '\x94';
    case Value::integer: {
      if (n < 1u << 31)
        return n < 1u << 8 ? 'K' + little(n, 1) : n < 1u << 16 ? 'M' + little(n, 2) : 'J' + little(n, 4);
      size_t width = 4;
      while (width < 9 && n >> (8 * width - 1)) width++;
      return Bytes("\x8a") + static_cast<char>(width) + (width < 9 ? little(n, width) : little(n, 8) + '\0');
    }
    case Value::list: break;
  }
  Bytes items;
  for (const Value& item : value.items) items += pickled(item);
  if (value.items.size() < 4) return items + static_cast<char>(0x84 + value.items.size()) + '\x94';
  return '(' + items + "t\x94";
}

inline Bytes pickle(const Value& value) {  // Python's, protocol 5
  const Bytes body = pickled(value) + '.';
  return "\x80\x05\x95" + little(body.size(), 8) + body;
}

inline bool begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }

inline Value kinded(const Value& keys) {  // extra keys as vLLM hashes them since 0.31: each with its kind before it
  Value found{Value::list};
  for (const Value& key : keys.items) {
    const char* kind = key.kind == Value::list ? "mm" : key.kind == Value::text ? "cache_salt" : "prompt_embeds";
    Value one{Value::list, 0, "", {{Value::text, 0, kind}}};
    if (key.kind == Value::list)
      one.items.insert(one.items.end(), key.items.begin(), key.items.end());
    else
      one.items.push_back(key);
    found.items.push_back(one);
  }
  return found;
}

inline Bytes vllm_key(const std::string& label, const std::optional<Bytes>& parent, const Block& tokens, Value extra) {
  const auto dump = begins(label, "x-vllm-sha256-cbor") ? cbor : pickle;
  const Value key{Value::bytes, 0, parent ? *parent : sha256(dump({Value::text, 0, "vllm-none-hash"}))};
  Value ids{Value::list};
  for (const Token& token : tokens) ids.items.push_back({Value::integer, token.id});
  if (extra.items.empty()) extra = {};
  return sha256(dump({Value::list, 0, "", {key, ids, extra}}));
}

inline std::vector<Made> chain(const std::string& label, size_t width, const Scope& given,
                               const std::vector<Block>& blocks) {
  const bool vllm = begins(label, "x-vllm"), wrap = label != "v1_block_key/no-wrap";
  const bool kinds = label.size() > 6 && label.substr(label.size() - 6) == "/kinds";
  std::optional<Bytes> key = given.parent_key;
  uint64_t hash = given.parent.value_or(0);
  if (!key && hash == 0 && begins(label, "v")) key = root_key(given.lora, given.salt);
  if (!key && label == "x-sglang-sha256")
    key = given.text ? sha256(Bytes("sglang-cache-salt-v1\0", 21) + *given.text) : "";
  bool keyed = !begins(label, "v1_block_key");
  size_t at = 0;
  std::vector<Made> found;
  for (size_t index = 0; index < blocks.size(); index++) {
    const Block& tokens = blocks[index];
    for (const Token& token : tokens) keyed = keyed || !token.digest.empty();
    if (vllm) {
      Value own{Value::list};
      if (given.lora_name) own.items.push_back({Value::text, 0, *given.lora_name});
      if (given.text && index == 0) own.items.push_back({Value::text, 0, *given.text});
      const Value& extra = given.extra_keys ? given.extra_keys->at(index) : own;
      key = vllm_key(label, key, tokens, kinds ? kinded(extra) : extra);
    } else if (key) {
      key = block_key(*key, tokens, width);
    } else if (keyed) {
      throw Skipped("no " + label + " here");
    }
    const size_t from = vllm || begins(label, "v2_sha256_low64") ? 24 : 0;
    hash = keyed ? number(key->substr(from, 8), true) : v1_block(tokens, hash, given, index, at, wrap);
    found.push_back({hash, keyed ? *key : ""});
    at += tokens.size();
  }
  return found;
}
