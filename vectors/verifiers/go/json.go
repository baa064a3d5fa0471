// JSON whose members keep their order.
package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A JSON value is nil, bool, string, json.Number, []any or object.
type member struct {
	key   string
	value any
}
type object []member

func (o object) get(key string) any {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

func parseJSON(data []byte) object {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return parse(decoder).(object)
}

func (o object) list(key string) []any {
	list, _ := o.get(key).([]any)
	return list
}

func (o object) text(key string) string {
	text, _ := o.get(key).(string)
	return text
}

func (o object) optionalText(key string) *string {
	if text, there := o.get(key).(string); there {
		return &text
	}
	return nil
}

func (o object) optional(key string) *uint64 {
	text := o.optionalText(key)
	if text == nil {
		return nil
	}
	number := number64(*text, 10)
	return &number
}

func (o object) number(key string) int {
	number, _ := strconv.Atoi(fmt.Sprint(o.get(key)))
	return number
}

func parse(decoder *json.Decoder) any {
	token, err := decoder.Token()
	if err != nil {
		panic(err)
	}
	switch token {
	case json.Delim('{'):
		o := object{}
		for decoder.More() {
			key := parse(decoder).(string)
			o = append(o, member{key, parse(decoder)})
		}
		decoder.Token()
		return o
	case json.Delim('['):
		list := []any{}
		for decoder.More() {
			list = append(list, parse(decoder))
		}
		decoder.Token()
		return list
	}
	return token
}

// Compact, members in order. Of a float its bits, which its text has to give when it is read.
func canonical(value any) string {
	switch v := value.(type) {
	case object:
		bits, isFloat := v.get("bits").(string)
		text, ok := v.get("float").(string)
		if isFloat && ok && len(v) == 2 {
			number, _ := strconv.ParseFloat(text, 64)
			meant := math.Float64frombits(number64(bits, 16))
			same := number == meant && math.Signbit(number) == math.Signbit(meant)
			if same || text == "nan" && math.IsNaN(meant) || text == "" {
				return "float " + bits
			}
			return "float " + bits + " and not " + text
		}
		parts := []string{}
		for _, m := range v {
			parts = append(parts, canonical(m.key)+":"+canonical(m.value))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		parts := []string{}
		for _, element := range v {
			parts = append(parts, canonical(element))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case string:
		return strconv.Quote(v)
	case nil:
		return "null"
	}
	return fmt.Sprint(value)
}

func number64(text string, base int) uint64 {
	number, err := strconv.ParseUint(text, base, 64)
	if err != nil {
		panic(err)
	}
	return number
}

func unhex(text any) []byte {
	digits, _ := text.(string)
	data, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	return data
}
