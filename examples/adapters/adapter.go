// A small publisher of KV-cache events, and the whole adapter that drives it, with nothing but the standard library:
// the publisher speaks ZMTP 3.0 (the wire protocol of ZeroMQ) with the mechanism NULL, as a PUB socket.
//
//	go build -o adapter adapter.go
//	kvwire check 'exec:./adapter'
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Refused is an answer: the request is understood and not carried out.
type Refused string

func (reason Refused) Error() string { return string(reason) }

// --- msgpack: what a batch needs -------------------------------------------------------------------------------------

func appendUint(out []byte, value uint64) []byte {
	switch {
	case value < 0x80:
		return append(out, byte(value))
	case value <= math.MaxUint8:
		return append(out, 0xcc, byte(value))
	case value <= math.MaxUint16:
		return append(out, 0xcd, byte(value>>8), byte(value))
	case value <= math.MaxUint32:
		return be32(append(out, 0xce), uint32(value))
	}
	return be64(append(out, 0xcf), value)
}

func appendInt(out []byte, value int64) []byte {
	if value >= 0 {
		return appendUint(out, uint64(value))
	}
	return be64(append(out, 0xd3), uint64(value))
}

func be32(out []byte, value uint32) []byte {
	return append(out, byte(value>>24), byte(value>>16), byte(value>>8), byte(value))
}

func be64(out []byte, value uint64) []byte { return be32(be32(out, uint32(value>>32)), uint32(value)) }

// appendHead begins a string, an array or a map.
func appendHead(out []byte, size int, fix byte, fixBelow int, wide16 byte) []byte {
	switch {
	case size < fixBelow:
		return append(out, fix|byte(size))
	case size <= math.MaxUint16:
		return append(out, wide16, byte(size>>8), byte(size))
	}
	return be32(append(out, wide16+1), uint32(size))
}

func appendText(out []byte, text string) []byte {
	if len(text) >= 32 && len(text) < 256 {
		return append(append(out, 0xd9, byte(len(text))), text...)
	}
	return append(appendHead(out, len(text), 0xa0, 32, 0xda), text...)
}

// Pair and Object keep the keys of a JSON object in the order in which they came.
type Pair struct {
	Key   string
	Value any
}
type Object []Pair

func (object Object) get(key string) any {
	for _, pair := range object {
		if pair.Key == key {
			return pair.Value
		}
	}
	return nil
}

// parse reads one JSON value; numbers stay text.
func parse(decoder *json.Decoder) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		object := Object{}
		for decoder.More() {
			key, err := decoder.Token()
			if err != nil {
				return nil, err
			}
			value, err := parse(decoder)
			if err != nil {
				return nil, err
			}
			object = append(object, Pair{key.(string), value})
		}
		_, err = decoder.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for decoder.More() {
			value, err := parse(decoder)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = decoder.Token()
		return list, err
	}
	return token, nil
}

func bitsOf(value Object) (uint64, error) {
	text, _ := value.get("bits").(string)
	return strconv.ParseUint(text, 16, 64)
}

func appendNumber(out []byte, text string) ([]byte, error) {
	if strings.HasPrefix(text, "-") {
		number, err := strconv.ParseInt(text, 10, 64)
		return appendInt(out, number), err
	}
	number, err := strconv.ParseUint(text, 10, 64)
	return appendUint(out, number), err
}

// appendValue writes a value of the JSON projection; 64-bit numbers travel as decimal strings behind a few keys.
func appendValue(out []byte, value any, decimal bool) ([]byte, error) {
	var err error
	switch value := value.(type) {
	case nil:
		return append(out, 0xc0), nil
	case bool:
		if value {
			return append(out, 0xc3), nil
		}
		return append(out, 0xc2), nil
	case json.Number:
		return appendNumber(out, value.String())
	case string:
		if decimal {
			return appendNumber(out, value)
		}
		return appendText(out, value), nil
	case []any:
		out = appendHead(out, len(value), 0x90, 16, 0xdc)
		for _, inner := range value {
			if out, err = appendValue(out, inner, decimal); err != nil {
				return nil, err
			}
		}
		return out, nil
	case Object:
		if len(value) == 2 && value.get("float") != nil && value.get("bits") != nil {
			bits, err := bitsOf(value)
			return be64(append(out, 0xcb), bits), err
		}
		out = appendHead(out, len(value), 0x80, 16, 0xde)
		for _, pair := range value {
			wide := pair.Key == "block_hashes" || pair.Key == "parent_block_hash" || pair.Key == "lora_id"
			if out, err = appendValue(appendText(out, pair.Key), pair.Value, wide); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return nil, Refused(fmt.Sprintf("adapter: no way to write %v", value))
}

// --- what is under test: yours is imported instead, and is not touched ------------------------------------------------

// Publisher is a PUB socket: what a subscriber does not take in time it misses, and nobody waits for it.
type Publisher struct {
	listener net.Listener
	topic    string
	rank     int64
	number   uint64
	lock     sync.Mutex
	peers    map[*peer]bool
	handlers sync.WaitGroup
}

type peer struct {
	conn   net.Conn
	queue  chan []byte
	topics [][]byte
	ready  bool
}

const (
	waiting = 1000                   // messages that wait for one subscriber
	linger  = 500 * time.Millisecond // for what waits when the publisher ends
)

func listen(endpoint, topic string, rank int64) (*Publisher, error) {
	scheme, place, _ := strings.Cut(endpoint, "://")
	network := map[string]string{"tcp": "tcp", "ipc": "unix"}[scheme]
	if network == "" {
		return nil, Refused(fmt.Sprintf("'%s': no scheme that it speaks", endpoint))
	}
	if network == "tcp" {
		place = strings.Replace(place, "*", "", 1)
	}
	listener, err := net.Listen(network, place)
	if err != nil {
		return nil, Refused(fmt.Sprintf("'%s': %v", endpoint, err))
	}
	publisher := &Publisher{listener: listener, topic: topic, rank: rank, peers: map[*peer]bool{}}
	go publisher.accept()
	return publisher, nil
}

func (publisher *Publisher) accept() {
	for {
		conn, err := publisher.listener.Accept()
		if err != nil {
			return
		}
		one := &peer{conn: conn, queue: make(chan []byte, waiting)}
		publisher.lock.Lock()
		publisher.peers[one] = true
		publisher.lock.Unlock()
		go publisher.serve(one)
	}
}

// serve greets a subscriber and hears what it subscribes to (ZMTP 3.0: messages of one byte 1 or 0 and a topic).
func (publisher *Publisher) serve(one *peer) {
	defer func() {
		publisher.lock.Lock()
		if publisher.peers[one] {
			delete(publisher.peers, one)
			close(one.queue)
		}
		publisher.lock.Unlock()
		if !one.ready {
			one.conn.Close()
		}
	}()
	greeting := make([]byte, 64)
	copy(greeting, "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL")
	one.conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := one.conn.Write(greeting); err != nil {
		return
	}
	if _, err := io.ReadFull(one.conn, greeting); err != nil || greeting[0] != 0xff || string(greeting[12:16]) != "NULL" {
		return
	}
	if _, err := one.conn.Write(frame(4, []byte("\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"))); err != nil {
		return
	}
	reader := bufio.NewReader(one.conn)
	if flags, _, err := read(reader); err != nil || flags&4 == 0 {
		return
	}
	one.conn.SetDeadline(time.Time{})
	one.ready = true
	publisher.handlers.Add(1)
	go publisher.send(one)
	for {
		flags, body, err := read(reader)
		if err != nil {
			return
		}
		if flags&4 != 0 || len(body) == 0 {
			continue
		}
		publisher.lock.Lock()
		one.subscribe(body[0] == 1, body[1:])
		publisher.lock.Unlock()
	}
}

func (one *peer) subscribe(wanted bool, topic []byte) {
	if wanted {
		one.topics = append(one.topics, topic)
		return
	}
	for at, known := range one.topics {
		if bytes.Equal(known, topic) {
			one.topics = append(one.topics[:at:at], one.topics[at+1:]...)
			return
		}
	}
}

// send hands on what waits for a subscriber; after a failure it only empties the queue.
func (publisher *Publisher) send(one *peer) {
	defer publisher.handlers.Done()
	defer one.conn.Close()
	var failed error
	for message := range one.queue {
		if failed == nil {
			_, failed = one.conn.Write(message)
		}
	}
}

// frame is a frame of ZMTP: flags (1 more, 2 long, 4 command), a size of one byte or eight, and the body.
func frame(flags byte, body []byte) []byte {
	if len(body) < 256 {
		return append([]byte{flags, byte(len(body))}, body...)
	}
	return append(be64([]byte{flags | 2}, uint64(len(body))), body...)
}

func read(reader *bufio.Reader) (byte, []byte, error) {
	flags, err := reader.ReadByte()
	if err != nil {
		return 0, nil, err
	}
	size := make([]byte, 1+7*(flags>>1&1))
	if _, err := io.ReadFull(reader, size); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint64(append(make([]byte, 8-len(size)), size...))
	if length > 1<<16 {
		return 0, nil, errors.New("a subscriber sends no such frame")
	}
	body := make([]byte, length)
	_, err = io.ReadFull(reader, body)
	return flags, body, err
}

func (publisher *Publisher) publish(ts uint64, events any) error {
	payload, err := appendValue(be64([]byte{0x93, 0xcb}, ts), events, false)
	if err != nil {
		return err
	}
	payload = appendInt(payload, publisher.rank)
	message := frame(1, []byte(publisher.topic))
	message = append(message, frame(1, be64(nil, publisher.number))...)
	message = append(message, frame(0, payload)...)
	publisher.number++
	publisher.lock.Lock()
	defer publisher.lock.Unlock()
	for one := range publisher.peers {
		for _, topic := range one.topics {
			if strings.HasPrefix(publisher.topic, string(topic)) {
				select {
				case one.queue <- message:
				default: // full: this subscriber misses the message, whole
				}
				break
			}
		}
	}
	return nil
}

func (publisher *Publisher) shutdown() {
	publisher.listener.Close()
	publisher.lock.Lock()
	for one := range publisher.peers {
		one.conn.SetDeadline(time.Now().Add(linger))
		delete(publisher.peers, one)
		close(one.queue)
	}
	publisher.lock.Unlock()
	publisher.handlers.Wait()
}

// --- the adapter -----------------------------------------------------------------------------------------------------

var (
	publisher *Publisher
	given     map[string]any
	folder    string
)

type answered map[string]any

func hello() (answered, error) {
	return answered{
		"protocol": "kvwire-adapter-1.1", "implementation": "mine in Go", "version": "1.0",
		"can": []string{"hello", "start", "publish", "restart", "stop"}, "sets": []string{"engine", "ts"},
		"statement": answered{"edition": "1", "profile": "core"},
	}, nil
}

func start(request Object) (answered, error) {
	if publisher != nil {
		return nil, Refused("adapter: it runs already")
	}
	given = map[string]any{}
	for _, pair := range request {
		switch {
		case pair.Value == nil || pair.Key == "id" || pair.Key == "verb":
		case pair.Key == "replay" && pair.Value != "none":
			return nil, Refused("adapter: this publisher has no replay socket")
		case strings.Contains(" endpoint replay topic rank world ", " "+pair.Key+" "):
			given[pair.Key] = pair.Value
		default:
			return nil, Refused("adapter: this publisher has no option " + pair.Key)
		}
	}
	return begin()
}

func begin() (answered, error) {
	endpoint, topic, rank := "ipc://"+filepath.Join(folder, "events"), "kv", int64(0)
	if text, ok := given["endpoint"].(string); ok {
		endpoint = text
	}
	if text, ok := given["topic"].(string); ok {
		topic = text
	}
	if number, ok := given["rank"].(json.Number); ok {
		rank, _ = number.Int64()
	}
	begun, err := listen(endpoint, topic, rank)
	if err != nil {
		return nil, err
	}
	publisher = begun
	return answered{"endpoint": endpoint, "replay": nil, "topic": topic, "rank": rank, "mode": "connect"}, nil
}

func publish(request Object) (answered, error) {
	if publisher == nil {
		return nil, Refused("adapter: it is not started")
	}
	batch, _ := request.get("batch").(Object)
	ts, _ := batch.get("ts").(Object)
	bits, err := bitsOf(ts)
	if err != nil {
		return nil, err
	}
	before := time.Now()
	err = publisher.publish(bits, batch.get("events"))
	return answered{"accepted": true, "blocked_us": time.Since(before).Microseconds()}, err
}

func stop() (answered, error) {
	if publisher != nil {
		publisher.shutdown()
	}
	publisher = nil
	return answered{}, nil
}

func answer(request Object) answered {
	var ok answered
	var err error
	switch verb := request.get("verb"); verb {
	case "hello":
		ok, err = hello()
	case "start":
		ok, err = start(request)
	case "publish":
		ok, err = publish(request)
	case "restart":
		stop()
		ok, err = begin()
	case "stop":
		ok, err = stop()
	default:
		return answered{"unsupported": verb}
	}
	var refused Refused
	if errors.As(err, &refused) {
		return answered{"refused": refused.Error()}
	}
	if err != nil {
		return answered{"error": err.Error()}
	}
	return answered{"ok": ok}
}

func main() {
	folder, _ = os.MkdirTemp("", "adapter-")
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM)
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		reader := bufio.NewReader(os.Stdin)
		for {
			line, err := reader.ReadBytes('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	for more := true; more; {
		select {
		case <-ending:
			more = false
		case line, open := <-lines:
			if more = open; !open {
				continue
			}
			decoder := json.NewDecoder(bytes.NewReader(line))
			decoder.UseNumber()
			value, _ := parse(decoder)
			request, _ := value.(Object)
			said := answer(request)
			said["id"] = request.get("id")
			text, _ := json.Marshal(said)
			fmt.Printf("%s\n", text)
		}
	}
	stop()
	os.RemoveAll(folder)
}
