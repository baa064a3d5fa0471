// The hash functions of the standard, from its text (hashing.md). Standard library only.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// What this program has no function for.
type skipped string

// A token is an id, or the digest of a multimodal item.
type token struct {
	id     uint64
	digest []byte
}

// A block has a hash, and a key if its hash is taken from one.
type block struct {
	hash uint64
	key  []byte
}

type mmKey struct {
	digest []byte
	offset uint64
}

// What a chain is made of, as the input of a vector names it. What is not given is nil.
type scope struct {
	parent, lora, salt *uint64
	parentKey          []byte
	loraName, text     *string
	extra              []uint64
	mm                 [][]mmKey
	extraKeys          []any
}

func step32(x, s uint64, wrap bool) uint64 {
	v := uint32(x)
	v = (v ^ v>>16) * 0x045d9f3b
	v = (v ^ v>>16) * 0x045d9f3b
	v = v ^ v>>16
	sum := uint64(v + 0x9e3779b9)
	if !wrap {
		sum = uint64(v) + 0x9e3779b9
	}
	return s ^ (sum + s<<6 + s>>2)
}

func step64(x, s uint64) uint64 {
	v := (x ^ x>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	v = v ^ v>>31
	return s ^ (v + 0x9e3779b9 + s<<6 + s>>2)
}

func (given scope) v1(index, at int, tokens []token, parent uint64, wrap bool) uint64 {
	s := uint64(len(tokens)) ^ parent*0xbf58476d1ce4e5b9
	if parent == 0 && given.salt != nil {
		s = step64(*given.salt, s)
	}
	for i, t := range tokens {
		s = step32(t.id, s, wrap)
		if given.extra != nil {
			s = step64(given.extra[at+i], s)
		}
	}
	if given.lora != nil {
		s = step64(*given.lora, s)
	}
	if given.mm != nil {
		for _, key := range given.mm[index] {
			for word := 0; word < 32; word += 4 {
				s = step32(uint64(binary.LittleEndian.Uint32(key.digest[word:])), s, wrap)
			}
			s = step64(key.offset, s)
		}
	}
	return s
}

func little(value uint64, width int) []byte {
	return binary.LittleEndian.AppendUint64(nil, value)[:width]
}

func digest(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

func saltID(text string) uint64 {
	return binary.LittleEndian.Uint64(digest([]byte(text)))
}

func unhexOr(digits any) []byte {
	if digits == nil {
		return nil
	}
	return unhex(digits)
}

func scopeTag(text string, key []byte) string {
	made := sha256.New()
	if key != nil {
		made = hmac.New(sha256.New, key)
	}
	made.Write([]byte("kvwire-scope-1\x00" + text))
	return hex.EncodeToString(made.Sum(nil)[:8])
}

func rootKey(lora, salt *uint64) []byte {
	data := []byte{0}
	for bit, id := range []*uint64{lora, salt} {
		if id != nil {
			data[0] |= 1 << bit
			data = append(data, little(*id, 8)...)
		}
	}
	return digest(data)
}

func blockKey(parent []byte, tokens []token, width int) []byte {
	data := append([]byte{}, parent...)
	for _, t := range tokens {
		if t.digest != nil {
			data = append(data, t.digest...)
		} else {
			data = append(data, little(t.id, width)...)
		}
	}
	return digest(data)
}

// The values of vLLM's blocks: nil, uint64, []byte, string, []any.
func cbor(value any) []byte {
	head := func(major byte, n uint64) []byte {
		if n < 24 {
			return []byte{major | byte(n)}
		}
		size, code := 1, byte(24)
		for size < 8 && n>>(8*size) > 0 {
			size, code = size*2, code+1
		}
		return append([]byte{major | code}, binary.BigEndian.AppendUint64(nil, n)[8-size:]...)
	}
	switch v := value.(type) {
	case uint64:
		return head(0x00, v)
	case []byte:
		return append(head(0x40, uint64(len(v))), v...)
	case string:
		return append(head(0x60, uint64(len(v))), v...)
	case []any:
		data := head(0x80, uint64(len(v)))
		for _, element := range v {
			data = append(data, cbor(element)...)
		}
		return data
	}
	return []byte{0xf6}
}

// Python's pickle, protocol 5.
func pickle(value any) []byte {
	body := append(pickled(value), '.')
	return append(append([]byte{0x80, 5, 0x95}, little(uint64(len(body)), 8)...), body...)
}

func pickled(value any) []byte {
	switch v := value.(type) {
	case uint64:
		for _, form := range [][3]int{{0x4b, 1, 8}, {0x4d, 2, 16}, {0x4a, 4, 31}} {
			if v < 1<<form[2] {
				return append([]byte{byte(form[0])}, little(v, form[1])...)
			}
		}
		data := append(little(v, 8), 0)
		for data[len(data)-1] == 0 && data[len(data)-2] < 0x80 {
			data = data[:len(data)-1]
		}
		return append([]byte{0x8a, byte(len(data))}, data...)
	case []byte:
		return append(append([]byte{0x43, byte(len(v))}, v...), 0x94)
	case string:
		return append(append([]byte{0x8c, byte(len(v))}, v...), 0x94)
	case []any:
		data := []byte{}
		for _, element := range v {
			data = append(data, pickled(element)...)
		}
		if len(v) <= 3 {
			return append(data, 0x84+byte(len(v)), 0x94)
		}
		return append(append([]byte{0x28}, data...), 0x74, 0x94)
	}
	return []byte{0x4e}
}

func vllmKey(label string, parent []byte, tokens []token, extra any) []byte {
	dump := pickle
	if strings.HasPrefix(label, "x-vllm-sha256-cbor") {
		dump = cbor
	}
	if parent == nil {
		parent = digest(dump("vllm-none-hash"))
	}
	ids := []any{}
	for _, t := range tokens {
		ids = append(ids, t.id)
	}
	return digest(dump([]any{parent, ids, extra}))
}

// Extra keys as vLLM hashes them since 0.31: each with its kind before it.
func kinded(keys []any) any {
	found := []any{}
	for _, key := range keys {
		switch k := key.(type) {
		case []any:
			found = append(found, append([]any{"mm"}, k...))
		case string:
			found = append(found, []any{"cache_salt", k})
		default:
			found = append(found, []any{"prompt_embeds", k})
		}
	}
	return found
}

func chain(label string, width int, given scope, blocks [][]token) (found []block) {
	v1, vllm := strings.HasPrefix(label, "v1"), strings.HasPrefix(label, "x-vllm")
	hash, key, at, keyed := uint64(0), given.parentKey, 0, !v1
	if given.parent != nil {
		hash = *given.parent
	}
	if key == nil && hash == 0 && label[0] == 'v' {
		key = rootKey(given.lora, given.salt)
	} else if key == nil && label == "x-sglang-sha256" {
		key = []byte{}
		if given.text != nil {
			key = digest([]byte("sglang-cache-salt-v1\x00" + *given.text))
		}
	}
	for index, tokens := range blocks {
		for _, t := range tokens {
			keyed = keyed || t.digest != nil
		}
		if vllm {
			extra := given.extraKeysOf(index)
			if keys, ok := extra.([]any); ok && strings.HasSuffix(label, "/kinds") {
				extra = kinded(keys)
			}
			key = vllmKey(label, key, tokens, extra)
		} else if key != nil {
			key = blockKey(key, tokens, width)
		} else if keyed {
			panic(skipped("no " + label + " here"))
		}
		made := block{key: key}
		if !keyed {
			made = block{hash: given.v1(index, at, tokens, hash, !strings.HasSuffix(label, "/no-wrap"))}
		} else if vllm || strings.HasPrefix(label, "v2_sha256_low64") {
			made.hash = binary.BigEndian.Uint64(key[24:])
		} else {
			made.hash = binary.BigEndian.Uint64(key)
		}
		hash, at, found = made.hash, at+len(tokens), append(found, made)
	}
	return found
}

// The extra keys of a block; without a list of them, the name of the LoRA adapter and, in the first block, the salt.
func (given scope) extraKeysOf(index int) any {
	own := []any{}
	if given.extraKeys != nil {
		return given.extraKeys[index]
	}
	for _, part := range []*string{given.loraName, given.text} {
		if part != nil && (index == 0 || part == given.loraName) {
			own = append(own, *part)
		}
	}
	if len(own) == 0 {
		return nil
	}
	return own
}
