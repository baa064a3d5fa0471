// Verify a folder of vectors: c++ -std=c++17 verify.cpp -lcrypto -o verify && ./verify FOLDER
#include <fstream>
#include <iostream>
#include <iterator>

#include "rules.hpp"

Id optional_id(const Json& input, const char* key) {
  if (!input.contains(key)) return std::nullopt;
  return std::stoull(input[key].get<std::string>());
}

std::optional<std::string> optional_text(const Json& input, const char* key) {
  if (!input.contains(key)) return std::nullopt;
  return input[key].get<std::string>();
}

Value plain(const Json& value) {  // extra keys, out of their projection
  if (value.is_null()) return {};
  if (value.is_string()) return {Value::text, 0, value};
  if (value.is_number()) return {Value::integer, value};
  if (value.is_object()) return {Value::bytes, 0, unhex(value["hex"])};
  Value list{Value::list};
  for (const Json& item : value) list.items.push_back(plain(item));
  return list;
}

Block tokens_of(const Json& items, size_t width, Ids& faults) {
  Block tokens;
  for (const Json& item : items) {
    if (item.is_object()) {
      for (uint64_t k = 0; k < item["count"]; k++)
        tokens.push_back({item["from"].get<uint64_t>() + k * item["step"].get<uint64_t>(), ""});
    } else if (item.is_string()) {
      tokens.push_back({0, unhex(item)});
      if (tokens.back().digest.size() != 32) faults.push_back("digest-length");
    } else {
      tokens.push_back({item.get<uint64_t>(), ""});
      if (item.get<int64_t>() < 0 || (width < 8 && item.get<uint64_t>() >> 8 * width)) faults.push_back("token-range");
    }
  }
  return tokens;
}

Answer answer_hash(const Json& group, const Json& input) {
  const std::string label = group["algorithm"];
  const size_t width = label.find("/u64") != label.npos ? 8 : group.value("width", 4),
               size = input.value("block_size", Json()).is_number() ? input["block_size"].get<size_t>() : 1;
  Ids faults;
  const Block tokens = tokens_of(input.value("tokens", Json::array()), width, faults);
  Scope given{optional_id(input, "parent"),
              optional_id(input, "lora_id"),
              optional_id(input, "salt_id"),
              {},
              optional_text(input, "lora_name"),
              optional_text(input, "salt"),
              {},
              {},
              {}};
  if (input.contains("parent_key")) given.parent_key = unhex(input["parent_key"]);
  if (!given.salt && given.text) given.salt = salt_id(*given.text);
  if (given.text && given.salt != salt_id(*given.text)) faults.push_back("salt-id");
  if (input.contains("extra_ids")) {
    given.extra.emplace();
    for (const Json& id : input["extra_ids"]) given.extra->push_back(std::stoull(id.get<std::string>()));
    if (given.extra->size() != tokens.size()) faults.push_back("extra-ids-count");
  }
  for (const Json& keys : input.value("mm_keys", Json::array())) {
    given.mm.emplace_back();
    for (const Json& key : keys) given.mm.back().push_back({unhex(key["hash"]), key["start_offset"]});
  }
  if (input.contains("extra_keys")) given.extra_keys = plain(input["extra_keys"]).items;
  if (!faults.empty()) return {Json::object(), faults};
  if (label == "v2_sha256/root") return {{{"key", hex(root_key(given.lora, given.salt))}}, {}};
  if (label == "scope_tag") {
    std::optional<Bytes> key;
    if (input.contains("scope_key")) key = unhex(input["scope_key"]);
    return {{{"tag", hex(scope_tag(given.text.value_or(""), key))}}, {}};
  }
  std::vector<Block> blocks;
  for (size_t at = 0; size > 0 && at < tokens.size(); at += size)
    blocks.emplace_back(tokens.begin() + at, tokens.begin() + std::min(at + size, tokens.size()));
  std::vector<Made> found{{given.salt.value_or(0), ""}};
  if (label != "salt_id") found = chain(label, width, given, blocks);
  Json listed = Json::array();
  for (const Made& made : found)
    listed.push_back(begins(label, "v2_sha256/") ? hex(made.key) : std::to_string(made.hash));
  const Made& last = found.at(found.size() - 1);
  const std::string decimal = std::to_string(last.hash), with_sign = std::to_string(static_cast<int64_t>(last.hash));
  return {{{"unsigned", decimal}, {"signed", with_sign}, {"key", hex(last.key)}, {"chain", listed}}, {}};
}

const std::map<std::string, Answer (*)(const Json&, const Json&)> answers{
    {"hash", answer_hash}, {"wire", answer_wire}, {"envelope", answer_envelope}};

// What is wrong with a test, or nothing.
std::string verify_test(const std::string& kind, const Json& group, const Json& test) {
  const auto [answer, breaks] = answers.at(kind)(group, test.contains("input") ? test["input"] : test);
  Json wanted = Json::object(), got = Json::object();
  for (const auto& [name, value] : test["expected"].items()) {
    if (name == "fault" || name == "layer" || name == "also" || (name == "form" && kind == "wire")) continue;
    wanted[name] = value;
    got[name] = answer.value(name, Json());
  }
  if (canonical(wanted) != canonical(got)) return "expected " + canonical(wanted) + ", got " + canonical(got);
  const std::string result = test.value("result", "valid"), fault = test["expected"].value("fault", "no fault");
  std::set<std::string> allowed;
  if (result != "valid") {
    for (const Json& id : test["requirements"]) allowed.insert(id);
    allowed.insert(fault);
  }
  std::string found;
  bool wrong = result == "invalid" && breaks.empty();
  for (const std::string& id : breaks) {
    found += " " + id;
    wrong = wrong || !allowed.count(id);
  }
  return wrong ? "expected " + fault + ", got" + (found.empty() ? " none" : found) : "";
}

int verify_file(const Json& listed, const std::string& data) {
  const std::string path = listed["path"], schema = listed["schema"], sum = hex(sha256(data));
  const std::string kind = schema.substr(15, schema.find('/', 15) - 15);  // kvwire/vectors/KIND/1
  int passed = 0, failed = 0, skipped = 0;
  std::string reason;
  const auto fail = [&](const std::string& name, const std::string& wrong) {
    std::cout << "FAIL " << path << " " << name << ": " << wrong << "\n";
    failed++;
  };
  if (sum != listed["sha256"]) fail("sha256", "expected " + listed["sha256"].get<std::string>() + ", got " + sum);
  if (!answers.count(kind)) {
    skipped = listed["count"];
    reason = "sha256 only";
  } else {
    const Json file = Json::parse(data);
    Json groups = file.value("groups", Json::array()), ids = Json::array();
    for (const Json& known : file.value("answers", Json::array()))
      groups.push_back({{"algorithm", known["algorithm"]}, {"tests", Json::array({known})}});
    for (const Json& group : groups)
      for (const Json& test : group["tests"]) {
        ids.push_back(test["id"]);
        try {
          const std::string wrong = verify_test(kind, group, test);
          wrong.empty() ? void(passed++) : fail(test["id"], wrong);
        } catch (const Skipped& why) {
          skipped++;
          reason = why.what();
        } catch (const std::exception& error) {
          fail(test["id"], std::string("expected an answer, got ") + error.what());
        }
      }
    if (ids != listed["ids"] || ids.size() != listed["count"] || ids.size() != file["count"])
      fail("ids", "expected the tests that the manifest lists, got others");
  }
  std::cout << path << ": " << passed << " passed, " << failed << " failed";
  if (skipped) std::cout << ", " << skipped << " skipped (" << reason << ")";
  std::cout << "\n";
  return failed;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int main(int, char** argv) {
  const std::string folder = std::string(argv[1]) + "/";
  const Json manifest = Json::parse(read(folder + "MANIFEST.json"));
  int failed = 0;
  for (const Json& listed : manifest["files"])
    failed += verify_file(listed, read(folder + listed["path"].get<std::string>()));
  return failed ? 1 : 0;
}
