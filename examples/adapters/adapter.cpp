// A small publisher of KV-cache events over libzmq, and the whole adapter that drives it.
//
//     g++ -std=c++17 adapter.cpp -lzmq -o adapter        (Debian: libzmq3-dev nlohmann-json3-dev)
//     kvwire check 'exec:./adapter'

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <zmq.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

using Json = nlohmann::ordered_json;  // keys stay in the order in which they came

struct Refused : std::runtime_error {  // an answer: the request is understood and not carried out
    using std::runtime_error::runtime_error;
};

// --- msgpack: what a batch needs ------------------------------------------------------------------------------------

void put(std::string& out, uint64_t value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

void put_head(std::string& out, size_t size, int fix, size_t fix_below, int wide16) {
    if (size < fix_below) {
        put(out, fix | size, 1);
    } else {
        put(out, size < 0x10000 ? wide16 : wide16 + 1, 1);
        put(out, size, size < 0x10000 ? 2 : 4);
    }
}

void put_float(std::string& out, double value) {  // `ts` is a float64 (KVW-BAT-002), and no other float is shorter
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    put(out, 0xcb, 1);
    put(out, bits, 8);
}

void put_unsigned(std::string& out, uint64_t value) {
    if (value < 0x80) return put(out, value, 1);
    int width = value < 0x100 ? 0 : value < 0x10000 ? 1 : value < 0x100000000 ? 2 : 3;
    put(out, 0xcc + width, 1);
    put(out, value, 1 << width);
}

void put_signed(std::string& out, int64_t value) {
    if (value >= 0) return put_unsigned(out, value);
    if (value >= -32) return put(out, value & 0xff, 1);
    int width = value >= INT8_MIN ? 0 : value >= INT16_MIN ? 1 : value >= INT32_MIN ? 2 : 3;
    put(out, 0xd0 + width, 1);
    put(out, value, 1 << width);
}

double float_of(const Json& value) {
    uint64_t bits = std::stoull(value.at("bits").get<std::string>(), nullptr, 16);
    double number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

// A value of the JSON projection; 64-bit numbers travel as decimal strings, which stand behind a few keys only.
void put_value(std::string& out, const Json& value, bool decimal = false) {
    if (value.is_object() && value.size() == 2 && value.contains("float") && value.contains("bits")) {
        put_float(out, float_of(value));
    } else if (value.is_object()) {
        put_head(out, value.size(), 0x80, 16, 0xde);
        for (const auto& [key, inner] : value.items()) {
            put_value(out, key);
            put_value(out, inner, key == "block_hashes" || key == "parent_block_hash" || key == "lora_id");
        }
    } else if (value.is_array()) {
        put_head(out, value.size(), 0x90, 16, 0xdc);
        for (const auto& inner : value) put_value(out, inner, decimal);
    } else if (value.is_string() && decimal) {
        const auto& text = value.get_ref<const std::string&>();
        if (text[0] == '-') put_signed(out, std::stoll(text));
        else put_unsigned(out, std::stoull(text));
    } else if (value.is_string()) {
        const auto& text = value.get_ref<const std::string&>();
        if (text.size() >= 32 && text.size() < 256) {
            put(out, 0xd9, 1);
            put(out, text.size(), 1);
        } else {
            put_head(out, text.size(), 0xa0, 32, 0xda);
        }
        out += text;
    } else if (value.is_number_unsigned()) {
        put_unsigned(out, value.get<uint64_t>());
    } else if (value.is_number_integer()) {
        put_signed(out, value.get<int64_t>());
    } else if (value.is_boolean()) {
        put(out, value.get<bool>() ? 0xc3 : 0xc2, 1);
    } else if (value.is_null()) {
        put(out, 0xc0, 1);
    } else {
        throw Refused("adapter: no way to write " + value.dump());
    }
}

// --- what is under test: yours is called instead, and is not touched -------------------------------------------------

class Publisher {
   public:
    Publisher(const std::string& endpoint, std::string topic, int rank) : topic_(std::move(topic)), rank_(rank) {
        int linger = 500;
        zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof linger);
        if (zmq_bind(socket_, endpoint.c_str()) != 0) {
            std::string reason = zmq_strerror(zmq_errno());
            close();
            throw Refused("'" + endpoint + "': " + reason);
        }
    }

    ~Publisher() { close(); }

    void publish(double ts, const Json& events) {
        std::string payload, number;
        put(payload, 0x93, 1);
        put_float(payload, ts);
        put_value(payload, events);
        put_signed(payload, rank_);
        put(number, number_++, 8);
        send(topic_, ZMQ_SNDMORE);
        send(number, ZMQ_SNDMORE);
        send(payload, 0);
    }

   private:
    void send(const std::string& frame, int flags) {
        if (zmq_send(socket_, frame.data(), frame.size(), flags) < 0) throw std::runtime_error(zmq_strerror(zmq_errno()));
    }

    void close() {
        zmq_close(socket_);
        zmq_ctx_term(context_);  // waits for the linger, so that what was accepted is sent
    }

    void* context_ = zmq_ctx_new();
    void* socket_ = zmq_socket(context_, ZMQ_PUB);
    std::string topic_;
    int rank_;
    uint64_t number_ = 0;
};

// --- the adapter -----------------------------------------------------------------------------------------------------

std::unique_ptr<Publisher> publisher;
Json given;
std::string folder;

Json hello() {
    return {{"protocol", "kvwire-adapter-1.1"},
            {"implementation", "mine in C++"},
            {"version", "1.0"},
            {"can", {"hello", "start", "publish", "restart", "stop"}},
            {"sets", {"engine", "ts"}},
            {"statement", {{"edition", "1"}, {"profile", "core"}}}};
}

Json begin() {
    std::string endpoint = given.value("endpoint", "ipc://" + folder + "/events");
    std::string topic = given.value("topic", "kv");
    int rank = given.value("rank", 0);
    publisher = std::make_unique<Publisher>(endpoint, topic, rank);
    return {{"endpoint", endpoint}, {"replay", nullptr}, {"topic", topic}, {"rank", rank}, {"mode", "connect"}};
}

Json start(const Json& request) {
    if (publisher) throw Refused("adapter: it runs already");
    given = Json::object();
    for (const auto& [name, value] : request.items()) {
        if (name == "id" || name == "verb" || value.is_null()) continue;
        if (name == "replay") {
            if (value != "none") throw Refused("adapter: this publisher has no replay socket");
        } else if (name != "endpoint" && name != "topic" && name != "rank" && name != "world") {
            throw Refused("adapter: this publisher has no option " + name);
        } else {
            given[name] = value;
        }
    }
    return begin();
}

Json publish(const Json& request) {
    if (!publisher) throw Refused("adapter: it is not started");
    double ts = float_of(request.at("batch").at("ts"));
    auto before = std::chrono::steady_clock::now();
    publisher->publish(ts, request.at("batch").at("events"));
    auto took = std::chrono::steady_clock::now() - before;
    return {{"accepted", true},
            {"blocked_us", std::chrono::duration_cast<std::chrono::microseconds>(took).count()}};
}

Json answer(const Json& request) {
    std::string verb = request.at("verb");
    try {
        if (verb == "hello") return {{"ok", hello()}};
        if (verb == "start") return {{"ok", start(request)}};
        if (verb == "publish") return {{"ok", publish(request)}};
        if (verb == "restart") {
            publisher.reset();
            return {{"ok", begin()}};
        }
        if (verb == "stop") {
            publisher.reset();
            return {{"ok", Json::object()}};
        }
        return {{"unsupported", verb}};
    } catch (const Refused& reason) {
        return {{"refused", reason.what()}};
    } catch (const std::exception& error) {
        return {{"error", error.what()}};
    }
}

int main() {
    FILE* answers = fdopen(dup(1), "w");
    dup2(2, 1);  // whatever prints from here on prints to standard error
    struct sigaction ending = {};
    ending.sa_handler = [](int) { close(0); };  // the next read ends the loop
    sigaction(SIGTERM, &ending, nullptr);
    std::string pattern = (std::filesystem::temp_directory_path() / "adapter-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    std::string line;
    while (std::getline(std::cin, line)) {
        Json request = Json::parse(line), answered = answer(request);
        answered["id"] = request.at("id");
        std::fprintf(answers, "%s\n", answered.dump().c_str());
        std::fflush(answers);
    }
    publisher.reset();
    std::filesystem::remove_all(folder);
}
