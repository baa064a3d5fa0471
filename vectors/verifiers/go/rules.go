// What a payload or a live message says, and the sentences of the standard that it breaks, by their ids.
package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

type sentences []string

func (broken *sentences) unless(right bool, id string) bool {
	if !right {
		*broken = append(*broken, id)
	}
	return right
}

func (value node) get(key string) (node, bool) {
	for at := 0; value.kind == pairs && at < len(value.items); at += 2 {
		if name := value.items[at]; name.kind == text && string(name.data) == key {
			return value.items[at+1], true
		}
	}
	return node{}, false
}

func (value node) within(low, high uint64) bool {
	return value.kind == integer && !value.minus && low <= value.number && value.number <= high
}

var hexDigits = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
var scopeTag = regexp.MustCompile(`^[0-9a-f]{16}$`)

func (value node) digest() bool {
	return value.kind == text && hexDigits.Match(value.data)
}

// What may stand nowhere in a payload.
func (broken *sentences) everywhere(value node) {
	broken.unless(value.kind != raw, "KVW-ENV-006")
	broken.unless(value.kind != ext, "KVW-EVT-004")
	seen := map[string]bool{}
	for at, inner := range value.items {
		broken.everywhere(inner)
		if value.kind == pairs && at%2 == 0 && broken.unless(inner.kind == text || inner.kind == raw, "KVW-EVT-002") {
			broken.unless(!seen[string(inner.data)], "KVW-EVT-003")
			seen[string(inner.data)] = true
		}
	}
}

func (broken *sentences) batch(value node) {
	broken.everywhere(value)
	if !broken.unless(value.kind == array && len(value.items) == 3, "KVW-BAT-001") {
		return
	}
	ts, events, rank := value.items[0], value.items[1], value.items[2]
	if broken.unless(ts.kind == float64bits, "KVW-BAT-002") {
		seconds := math.Float64frombits(ts.number)
		broken.unless(seconds >= 0 && seconds < 1e11, "KVW-BAT-003")
	}
	broken.unless(rank.within(0, 1<<31-1), "KVW-RNK-001")
	broken.unless(events.kind == array, "KVW-BAT-005")
	announced := map[string]bool{}
	for _, event := range events.items {
		name, _ := event.get("type")
		broken.unless(events.kind != array || name.kind == text, "KVW-EVT-001")
		called := string(name.data)
		if called == "BlockStored" || called == "BlockRemoved" || called == "AllBlocksCleared" {
			broken.event(event, called)
		}
		if called == "BlockStored" || called == "BlockRemoved" {
			algorithm, _ := event.get("hash_algo")
			announced[string(algorithm.data)] = true
		}
		edition, there := event.get("v")
		broken.unless(!there || edition.within(0, math.MaxUint64), "KVW-EVT-018")
		_, clear := event.get("cache_salt")
		broken.unless(!clear, "KVW-EVT-019")
	}
	broken.unless(len(announced) < 2, "KVW-HSH-003")
}

// A location update: hashes that are in another medium than the device, and nothing more.
func (event node) location() bool {
	hashes, _ := event.get("block_hashes")
	tokens, _ := event.get("token_ids")
	size, _ := event.get("block_size")
	parent, _ := event.get("parent_block_hash")
	medium, _ := event.get("medium")
	plain := tokens.kind == array && len(tokens.items) == 0 && size.within(0, 0) && parent.kind == null
	return plain && len(hashes.items) > 0 && medium.kind == text && string(medium.data) != "GPU"
}

func (key node) mmKey() bool {
	name, _ := key.get("type")
	digest, _ := key.get("hash")
	offset, _ := key.get("start_offset")
	uuid, named := key.get("uuid")
	right := key.kind == pairs && name.kind == text && string(name.data) == "mm_key" && (!named || uuid.kind == text)
	for at := 0; right && at < len(key.items); at += 2 {
		switch known := key.items[at]; string(known.data) {
		case "type", "hash", "start_offset", "uuid":
			right = known.kind == text
		default:
			right = false
		}
	}
	return right && digest.digest() && offset.within(0, math.MaxUint64)
}

var texts = []string{
	"lora_name", "kv_cache_spec_kind", "hash_algo", "locality", "ownership", "scope", "session_id", "epoch",
}

func (broken *sentences) event(event node, called string) {
	stored := called == "BlockStored"
	medium, _ := event.get("medium")
	broken.unless(medium.kind == null || medium.kind == text && len(medium.data) > 0, "KVW-EVT-015")
	for _, key := range texts {
		value, _ := event.get(key)
		broken.unless(value.kind == null || value.kind == text, "KVW-EVT-021")
	}
	for _, key := range []string{"lora_id", "group_idx", "kv_cache_spec_sliding_window"} {
		value, _ := event.get(key)
		broken.unless(value.kind == null || value.within(0, math.MaxUint64), "KVW-EVT-021")
	}
	if called == "AllBlocksCleared" {
		return
	}
	required, id := []string{"block_hashes", "medium"}, "KVW-EVT-006"
	if stored {
		required = append(required, "parent_block_hash", "token_ids", "block_size", "lora_id", "lora_name")
		id = "KVW-EVT-005"
	}
	for _, key := range required {
		if _, there := event.get(key); !broken.unless(there, id) {
			return
		}
	}
	hashes, _ := event.get("block_hashes")
	parent, _ := event.get("parent_block_hash")
	integers, distinct := hashes.kind == array && (parent.kind == null || parent.kind == integer), true
	seen := map[uint64]bool{parent.number: parent.kind == integer}
	for _, hash := range hashes.items {
		integers, distinct = integers && hash.kind == integer, distinct && !seen[hash.number]
		seen[hash.number] = true
	}
	if broken.unless(integers, "KVW-EVT-007") {
		broken.unless(distinct || !stored || event.location(), "KVW-CHN-004")
	}
	if stored {
		scope, _ := event.get("scope")
		broken.unless(scope.kind != text || scopeTag.Match(scope.data), "KVW-EVT-028")
		extra, _ := event.get("extra_keys")
		right := extra.kind == array && (hashes.kind != array || len(extra.items) == len(hashes.items))
		for _, keys := range extra.items {
			right = right && (keys.kind == null || keys.kind == array)
		}
		broken.unless(extra.kind == null || right, "KVW-EVT-029")
		broken.tokens(event, hashes)
	}
}

func (broken *sentences) tokens(event, hashes node) {
	tokens, _ := event.get("token_ids")
	size, _ := event.get("block_size")
	keys, _ := event.get("mm_keys")
	algorithm, _ := event.get("hash_algo")
	limit, right, digests, texts := uint64(1<<32-1), tokens.kind == array, true, false
	if strings.HasSuffix(string(algorithm.data), "/u32") {
		limit = 1<<31 - 1
	}
	for _, t := range tokens.items {
		right = right && (t.kind == text || t.within(0, limit))
		digests, texts = digests && (t.kind != text || t.digest()), texts || t.kind == text
	}
	if broken.unless(right, "KVW-EVT-010") && broken.unless(digests, "KVW-EVT-011") {
		broken.unless(!texts || keys.kind != null, "KVW-EVT-012")
	}
	if event.location() {
		return
	}
	if broken.unless(size.within(1, math.MaxUint64), "KVW-EVT-014") && tokens.kind == array && hashes.kind == array {
		count := uint64(len(hashes.items))
		broken.unless(count > 0 && uint64(len(tokens.items)) == size.number*count, "KVW-EVT-013")
	}
	right = keys.kind == array && (hashes.kind != array || len(keys.items) == len(hashes.items))
	known := true
	for _, list := range keys.items {
		right = right && list.kind == array
		for _, key := range list.items {
			known = known && key.mmKey()
		}
	}
	if broken.unless(keys.kind == null || right, "KVW-EVT-012") && right && broken.unless(known, "KVW-EVT-030") {
		broken.content(tokens, size, keys)
	}
}

// Each digest token has a key in the list of its block, and each key at offset 0 a digest token.
func (broken *sentences) content(tokens, size, keys node) {
	found, clear := make([]map[string]int, len(keys.items)), false
	for index, list := range keys.items {
		found[index] = map[string]int{}
		for _, key := range list.items {
			offset, _ := key.get("start_offset")
			digest, _ := key.get("hash")
			if offset.number == 0 {
				found[index][strings.ToLower(string(digest.data))] |= 1
			}
		}
	}
	for at, token := range tokens.items {
		if index := uint64(at) / max(size.number, 1); token.digest() && index < uint64(len(found)) {
			found[index][strings.ToLower(string(token.data))] |= 2
			clear = true
		}
	}
	for _, block := range found {
		for _, where := range block {
			broken.unless(where == 3 || !clear, "KVW-EVT-031")
		}
	}
}

// The projection of a payload, if it begins with a value.
func answerWire(_, input object) (answer object, broken []string) {
	defer func() {
		if problem := recover(); problem == errTruncated {
			answer, broken = nil, []string{"KVW-ENV-006"}
		} else if problem != nil {
			panic(problem)
		}
	}()
	for _, payload := range append([]any{input.get("payload")}, input.list("encodings")...) {
		r, found := reader{unhex(payload)}, sentences{}
		value := r.value()
		found.batch(value)
		if found.unless(len(r.data) == 0, "KVW-ENV-006"); strings.Contains(fmt.Sprint(found), "KVW-ENV-006") {
			found = sentences{"KVW-ENV-006"}
		}
		projection := object{{"projection", projectPayload(value)}}
		if answer == nil {
			answer = projection
		}
		found.unless(canonical(projection) == canonical(answer), "KVW-EVT-025")
		broken = append(broken, found...)
	}
	return answer, broken
}

func answerEnvelope(_, input object) (object, []string) {
	frames, broken := input.list("frames"), sentences{}
	if !broken.unless(len(frames) == 3, "KVW-ENV-001") {
		return nil, broken
	}
	topic, number, payload := unhex(frames[0]), unhex(frames[1]), unhex(frames[2])
	broken.unless(utf8.Valid(topic), "KVW-ENV-004")
	broken.unless(len(number) == 8, "KVW-ENV-005")
	broken.unless(len(payload) > 0, "KVW-ENV-006")
	broken.unless(string(number) != "\xff\xff\xff\xff\xff\xff\xff\xff", "KVW-SEQ-006")
	sequence := strconv.FormatUint(binary.BigEndian.Uint64(append(number, 0, 0, 0, 0, 0, 0, 0, 0)), 10)
	return object{{"topic", frames[0]}, {"sequence", sequence}, {"payload", frames[2]}}, broken
}
