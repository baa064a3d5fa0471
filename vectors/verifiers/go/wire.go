// Payloads: msgpack, and its JSON projection (projection.md).
package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"unicode/utf8"
)

type kind int

const (
	null kind = iota
	boolean
	integer
	float32bits
	float64bits
	text
	raw // a string that is not UTF-8
	binary8
	ext
	array
	pairs
)

// A msgpack value. number: an integer modulo 2^64, or the bits of a float64. items: of a map, keys and values by turns.
type node struct {
	kind   kind
	number uint64
	minus  bool
	data   []byte
	items  []node
}

var errTruncated = errors.New("truncated")

type reader struct {
	data []byte
}

func (r *reader) take(count uint64) []byte {
	if count > uint64(len(r.data)) {
		panic(errTruncated)
	}
	taken := r.data[:count]
	r.data = r.data[count:]
	return taken
}

func (r *reader) number(width uint64) uint64 {
	return binary.BigEndian.Uint64(append(make([]byte, 8-width), r.take(width)...))
}

func (r *reader) value() node {
	code := r.take(1)[0]
	switch {
	case code < 0x80:
		return node{kind: integer, number: uint64(code)}
	case code < 0x90:
		return r.list(pairs, 2*uint64(code&15))
	case code < 0xa0:
		return r.list(array, uint64(code&15))
	case code < 0xc0:
		return r.text(uint64(code & 31))
	case code == 0xc0:
		return node{}
	case code == 0xc1:
		panic(errTruncated)
	case code < 0xc4:
		return node{kind: boolean, number: uint64(code & 1)}
	case code < 0xc7:
		return node{kind: binary8, data: r.take(r.number(1 << (code - 0xc4)))}
	case code < 0xca:
		return r.ext(r.number(1 << (code - 0xc7)))
	case code == 0xca:
		single := math.Float32frombits(uint32(r.number(4)))
		return node{kind: float32bits, number: math.Float64bits(float64(single))}
	case code == 0xcb:
		return node{kind: float64bits, number: r.number(8)}
	case code < 0xd0:
		return node{kind: integer, number: r.number(1 << (code - 0xcc))}
	case code < 0xd4:
		width := uint64(1) << (code - 0xd0)
		number := uint64(int64(r.number(width)<<(64-8*width)) >> (64 - 8*width))
		return node{kind: integer, number: number, minus: int64(number) < 0}
	case code < 0xd9:
		return r.ext(1 << (code - 0xd4))
	case code < 0xdc:
		return r.text(r.number(1 << (code - 0xd9)))
	case code < 0xde:
		return r.list(array, r.number(2<<(code-0xdc)))
	case code < 0xe0:
		return r.list(pairs, 2*r.number(2<<(code-0xde)))
	}
	return node{kind: integer, number: uint64(int8(code)), minus: true}
}

func (r *reader) text(size uint64) node {
	data := r.take(size)
	if !utf8.Valid(data) {
		return node{kind: raw, data: data}
	}
	return node{kind: text, data: data}
}

func (r *reader) ext(size uint64) node {
	code := r.take(1)
	return node{kind: ext, number: uint64(int8(code[0])), data: r.take(size)}
}

func (r *reader) list(of kind, size uint64) node {
	list := node{kind: of}
	for ; size > 0; size-- {
		list.items = append(list.items, r.value())
	}
	return list
}

var order = []string{
	"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
	"group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality", "ownership", "scope",
	"session_id", "mm_keys", "hash_algo", "epoch", "v",
}

// The names that the projection's own objects have.
var taken = map[string]bool{
	`["hex"]`: true, `["hex" "str"]`: true, `["int"]`: true, `["bits" "float"]`: true, `["ext" "hex"]`: true,
	`["map"]`: true,
}

// field: the value of a 64-bit field, or inside of one. Keys of objects name fields, wherever they stand.
func project(value node, field bool) any {
	switch value.kind {
	case boolean:
		return value.number == 1
	case integer:
		number := strconv.FormatUint(value.number, 10)
		if value.minus {
			number = strconv.FormatInt(int64(value.number), 10)
		}
		if field {
			return number
		}
		if magnitude := value.number; magnitude < 1<<53 || value.minus && -magnitude < 1<<53 {
			return json.Number(number)
		}
		return object{{"int", number}}
	case float32bits, float64bits:
		return object{{"float", ""}, {"bits", fmt.Sprintf("%016x", value.number)}}
	case text:
		return string(value.data)
	case raw:
		return object{{"hex", hex.EncodeToString(value.data)}, {"str", "not UTF-8"}}
	case binary8:
		return object{{"hex", hex.EncodeToString(value.data)}}
	case ext:
		return object{{"ext", json.Number(fmt.Sprint(int64(value.number)))}, {"hex", hex.EncodeToString(value.data)}}
	case array:
		list := []any{}
		for _, element := range value.items {
			list = append(list, project(element, field))
		}
		return list
	case pairs:
		return projectMap(value.items)
	}
	return nil
}

func projectMap(items []node) any {
	keys, distinct, plain := []string{}, map[string]bool{}, true
	for at := 0; at < len(items); at += 2 {
		key := string(items[at].data)
		plain = plain && items[at].kind == text && !distinct[key]
		keys, distinct[key] = append(keys, key), true
	}
	sort.Strings(keys)
	if !plain || taken[fmt.Sprintf("%q", keys)] {
		list := []any{}
		for at := 0; at < len(items); at += 2 {
			list = append(list, []any{project(items[at], false), project(items[at+1], false)})
		}
		return object{{"map", list}}
	}
	o := object{}
	add := func(name string) {
		for at := 0; at < len(items); at += 2 {
			if string(items[at].data) == name {
				field := name == "block_hashes" || name == "parent_block_hash" || name == "lora_id"
				o = append(o, member{name, project(items[at+1], field)})
			}
		}
	}
	for _, name := range order {
		add(name)
		delete(distinct, name)
	}
	for _, key := range keys {
		if distinct[key] {
			add(key)
		}
	}
	return o
}

func projectPayload(value node) any {
	list, _ := project(value, false).([]any)
	if len(list) != 3 || value.items[1].kind != array {
		return project(value, false)
	}
	return object{{"ts", list[0]}, {"events", list[1]}, {"data_parallel_rank", list[2]}}
}
