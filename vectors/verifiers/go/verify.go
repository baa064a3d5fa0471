// Verify a folder of vectors: go run *.go FOLDER. Standard library only.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// From the group and the input of a test: what is expected of it, and the sentences or faults of its input.
var answers = map[string]func(object, object) (object, []string){
	"hash": answerHash, "wire": answerWire, "envelope": answerEnvelope,
}

func tokensOf(items []any, width int) (tokens []token, faults []string) {
	for _, item := range items {
		switch v := item.(type) {
		case string:
			tokens = append(tokens, token{digest: unhex(v)})
			if len(v) != 64 {
				faults = append(faults, "digest-length")
			}
		case object:
			for k := 0; k < v.number("count"); k++ {
				tokens = append(tokens, token{id: uint64(v.number("from") + k*v.number("step"))})
			}
		default:
			id, err := strconv.ParseUint(fmt.Sprint(v), 10, 8*width)
			tokens = append(tokens, token{id: id})
			if err != nil {
				faults = append(faults, "token-range")
			}
		}
	}
	return tokens, faults
}

// Extra keys, out of their projection.
func plain(value any) any {
	switch v := value.(type) {
	case object:
		return unhex(v.get("hex"))
	case []any:
		list := []any{}
		for _, element := range v {
			list = append(list, plain(element))
		}
		return list
	case string, nil:
		return v
	}
	return number64(fmt.Sprint(value), 10)
}

func answerHash(group, input object) (object, []string) {
	label, width := group.text("algorithm"), 4
	if group.number("width") == 8 || strings.HasSuffix(label, "/u64") {
		width = 8
	}
	tokens, faults := tokensOf(input.list("tokens"), width)
	given := scope{
		parent: input.optional("parent"), lora: input.optional("lora_id"), salt: input.optional("salt_id"),
		loraName: input.optionalText("lora_name"), text: input.optionalText("salt"),
	}
	if input.get("parent_key") != nil {
		given.parentKey = unhex(input.get("parent_key"))
	}
	for _, id := range input.list("extra_ids") {
		given.extra = append(given.extra, number64(id.(string), 10))
	}
	if given.extra != nil && len(given.extra) != len(tokens) {
		faults = append(faults, "extra-ids-count")
	}
	for _, block := range input.list("mm_keys") {
		keys := []mmKey{}
		for _, key := range block.([]any) {
			digest := unhex(key.(object).get("hash"))
			keys = append(keys, mmKey{digest, uint64(key.(object).number("start_offset"))})
		}
		given.mm = append(given.mm, keys)
	}
	for _, keys := range input.list("extra_keys") {
		given.extraKeys = append(given.extraKeys, plain(keys))
	}
	if given.text != nil {
		salt := saltID(*given.text)
		if given.salt != nil && *given.salt != salt {
			faults = append(faults, "salt-id")
		}
		given.salt = &salt
	}
	if len(faults) > 0 {
		return nil, faults
	}
	found := []block{}
	if label == "v2_sha256/root" {
		found = append(found, block{key: rootKey(given.lora, given.salt)})
	} else if label == "scope_tag" {
		return object{{"tag", scopeTag(*given.text, unhexOr(input.get("scope_key")))}}, nil
	} else if label == "salt_id" {
		found = append(found, block{hash: *given.salt})
	} else {
		blocks, size := [][]token{}, input.number("block_size")
		for ; size > 0 && len(tokens) > 0; tokens = tokens[size:] {
			if size > len(tokens) {
				size = len(tokens)
			}
			blocks = append(blocks, tokens[:size])
		}
		found = chain(label, width, given, blocks)
	}
	listed := []any{}
	for _, made := range found {
		if strings.HasPrefix(label, "v2_sha256/") {
			listed = append(listed, hex.EncodeToString(made.key))
		} else {
			listed = append(listed, strconv.FormatUint(made.hash, 10))
		}
	}
	last := found[len(found)-1]
	unsigned, signed := strconv.FormatUint(last.hash, 10), strconv.FormatInt(int64(last.hash), 10)
	members := object{{"unsigned", unsigned}, {"signed", signed}, {"key", hex.EncodeToString(last.key)}, {"chain", listed}}
	return members, nil
}

// What is wrong with a test, or nothing.
func verifyTest(kind string, group, test object) (wrong string) {
	defer func() {
		if problem := recover(); problem != nil {
			if _, skip := problem.(skipped); skip {
				panic(problem)
			}
			wrong = fmt.Sprintf("expected an answer, got %v", problem)
		}
	}()
	input, there := test.get("input").(object)
	if !there {
		input = test
	}
	answer, breaks := answers[kind](group, input)
	expected := test.get("expected").(object)
	wanted, got := object{}, object{}
	for _, m := range expected {
		if m.key == "fault" || m.key == "layer" || m.key == "also" || m.key == "form" && kind == "wire" {
			continue
		}
		wanted, got = append(wanted, m), append(got, member{m.key, answer.get(m.key)})
	}
	if canonical(wanted) != canonical(got) {
		return "expected " + canonical(wanted) + ", got " + canonical(got)
	}
	allowed, refuses := map[string]bool{}, len(breaks) == 0 && test.text("result") == "invalid"
	if result := test.text("result"); result == "invalid" || result == "acceptable" {
		allowed[expected.text("fault")] = true
		for _, id := range test.list("requirements") {
			allowed[id.(string)] = true
		}
	}
	for _, id := range breaks {
		refuses = refuses || !allowed[id]
	}
	if refuses {
		sort.Strings(breaks)
		return fmt.Sprintf("expected fault %q, got %v", expected.text("fault"), breaks)
	}
	return ""
}

// How many tests of a file failed; prints what failed, and the counts.
func verifyFile(listed object, data []byte) (failed int) {
	path, kind := listed.text("path"), strings.Split(listed.text("schema"), "/")[2]
	fail := func(name, wrong string) {
		fmt.Printf("FAIL %s %s: %s\n", path, name, wrong)
		failed++
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(data)); sum != listed.text("sha256") {
		fail("sha256", "expected "+listed.text("sha256")+", got "+sum)
	}
	if answers[kind] == nil {
		fmt.Printf("%s: 0 passed, %d failed, %d skipped (sha256 only)\n", path, failed, listed.number("count"))
		return failed
	}
	file := parseJSON(data)
	groups := file.list("groups")
	for _, known := range file.list("answers") {
		groups = append(groups, append(object{{"tests", []any{known}}}, known.(object)...))
	}
	ids, passed, skips, reason := []any{}, 0, 0, ""
	for _, group := range groups {
		for _, test := range group.(object).list("tests") {
			id := test.(object).text("id")
			ids = append(ids, id)
			func() {
				defer func() {
					if why := recover(); why != nil {
						skips, reason = skips+1, fmt.Sprint(why)
					}
				}()
				if wrong := verifyTest(kind, group.(object), test.(object)); wrong != "" {
					fail(id, wrong)
				} else {
					passed++
				}
			}()
		}
	}
	counts := len(ids) == listed.number("count") && len(ids) == file.number("count")
	if !counts || canonical(ids) != canonical(listed.list("ids")) {
		fail("ids", "expected the tests that the manifest lists, got others")
	}
	fmt.Printf("%s: %d passed, %d failed", path, passed, failed)
	if skips > 0 {
		fmt.Printf(", %d skipped (%s)", skips, reason)
	}
	fmt.Println()
	return failed
}

func read(path ...string) []byte {
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		panic(err)
	}
	return data
}

func main() {
	failed := 0
	for _, listed := range parseJSON(read(os.Args[1], "MANIFEST.json")).list("files") {
		failed += verifyFile(listed.(object), read(os.Args[1], listed.(object).text("path")))
	}
	if failed > 0 {
		os.Exit(1)
	}
}
