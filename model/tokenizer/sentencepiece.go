package tokenizer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// Types of pieces in a tokenizer.model (sentencepiece_model.proto, SentencePiece.Type), and of tokens in a GGUF file.
const (
	pieceNormal  = 1
	pieceUnknown = 2
	pieceControl = 3
	pieceUser    = 4
	pieceUnused  = 5
	pieceByte    = 6
)

// pieceModel is a tokenizer.model.
type pieceModel struct {
	table  tableBuilder
	scores []float32
	types  []uint8

	modelType    uint64 // 1 unigram, 2 BPE
	byteFallback bool
	suffix       bool
	eos          int64
	charsmap     []byte
	dummyPrefix  bool
	removeSpaces bool
	escapeSpaces bool
}

// looksLikeSentencePiece tells a tokenizer.model, which begins with the field 1, from a text.
func looksLikeSentencePiece(p []byte) bool {
	return len(p) > 4 && p[0] == 1<<3|2 && !json.Valid(p)
}

// fields calls yield with each field of a protobuf message: of wire type 0, 1 or 5 its bits, of type 2 its bytes.
func fields(p []byte, yield func(field, bits uint64, body []byte) error) error {
	for len(p) > 0 {
		tag, n := binary.Uvarint(p)
		if n <= 0 {
			return errCutShort
		}
		p = p[n:]
		var bits uint64
		var body []byte
		switch tag & 7 {
		case 0:
			if bits, n = binary.Uvarint(p); n <= 0 {
				return errCutShort
			}
		case 1:
			if n = 8; len(p) < n {
				return errCutShort
			}
			bits = binary.LittleEndian.Uint64(p)
		case 2:
			size, m := binary.Uvarint(p)
			if m <= 0 || size > uint64(len(p)-m) {
				return errCutShort
			}
			n = m + int(size)
			body = p[m:n]
		case 5:
			if n = 4; len(p) < n {
				return errCutShort
			}
			bits = uint64(binary.LittleEndian.Uint32(p))
		default:
			return fmt.Errorf("tokenizer: not a tokenizer.model: wire type %d", tag&7)
		}
		p = p[n:]
		if err := yield(tag>>3, bits, body); err != nil {
			return err
		}
	}
	return nil
}

var errCutShort = errors.New("tokenizer: not a tokenizer.model: a field is cut short")

// read takes the message apart.
func (m *pieceModel) read(p []byte) error {
	*m = pieceModel{modelType: 1, eos: 2, dummyPrefix: true, removeSpaces: true, escapeSpaces: true}
	return fields(p, func(field, _ uint64, body []byte) error {
		switch field {
		case 1:
			return m.readPiece(body)
		case 2: // TrainerSpec
			return fields(body, func(field, bits uint64, _ []byte) error {
				switch field {
				case 3:
					m.modelType = bits
				case 24:
					m.suffix = bits != 0
				case 35:
					m.byteFallback = bits != 0
				case 42:
					m.eos = int64(int32(bits))
				}
				return nil
			})
		case 3: // NormalizerSpec
			return fields(body, func(field, bits uint64, body []byte) error {
				switch field {
				case 2:
					m.charsmap = body
				case 3:
					m.dummyPrefix = bits != 0
				case 4:
					m.removeSpaces = bits != 0
				case 5:
					m.escapeSpaces = bits != 0
				}
				return nil
			})
		}
		return nil
	})
}

func (m *pieceModel) readPiece(p []byte) error {
	id := len(m.types)
	if id >= maxVocab {
		return fmt.Errorf("tokenizer: the model has more than %d pieces", maxVocab)
	}
	var text []byte
	score, kind := float32(0), uint64(pieceNormal)
	err := fields(p, func(field, bits uint64, body []byte) error {
		switch field {
		case 1:
			text = body
		case 2:
			score = math.Float32frombits(uint32(bits))
		case 3:
			kind = bits
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(text) == 0 || !utf8.Valid(text):
		return fmt.Errorf("tokenizer: piece %d, %.20q, is not a text", id, text)
	case kind < pieceNormal || kind > pieceByte:
		return fmt.Errorf("tokenizer: piece %d, %.20q, has type %d", id, text, kind)
	case score != score:
		return fmt.Errorf("tokenizer: piece %d, %.20q, has no score", id, text)
	}
	m.table.set(int32(id), text)
	m.scores, m.types = append(m.scores, score), append(m.types, uint8(kind))
	return nil
}

// parseSentencePiece reads a tokenizer.model.
func parseSentencePiece(p []byte) (*Tokenizer, error) {
	var m pieceModel
	if err := m.read(p); err != nil {
		return nil, err
	}
	charsmap, err := newCharsmap(m.charsmap)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{vocab: m.table.pack(), valid: nil}
	user := m.texts(t, pieceUser)
	t.norm = normalizers{newPieceNormalizer(pieceNormalizer{
		m: charsmap, whole: newTextSet(user), prefix: m.dummyPrefix, suffix: m.suffix, squeeze: m.removeSpaces, escape: m.escapeSpaces,
	})}
	byteID := m.bytes(t)
	switch m.modelType {
	case 1:
		t.kind, t.model = "SentencePiece unigram", m.unigram(t, byteID)
	case 2:
		t.kind, t.model = "SentencePiece BPE", m.bpe(t, byteID, user)
	default:
		return nil, fmt.Errorf("tokenizer: a SentencePiece model of type %d (1 is unigram, 2 BPE) is not supported", m.modelType)
	}
	t.decoding = decoding{replace: []replaced{{[]byte(spaceSign), []byte{' '}}}, byteID: &byteID}
	if m.dummyPrefix && !m.suffix {
		t.decoding.strip = 1
	}
	var control []addedToken
	for id, kind := range m.types {
		if kind == pieceControl || kind == pieceUnknown {
			control = append(control, addedToken{id: int32(id), content: string(t.vocab.token(int32(id))), special: true, inVocab: true})
		}
	}
	if err := t.initAdded(control); err != nil {
		return nil, err
	}
	t.eos = -1
	if m.eos >= 0 && m.eos < int64(len(m.types)) && m.types[m.eos] == pieceControl {
		t.eos = int32(m.eos)
	}
	return t, nil
}

// texts returns the texts of the pieces of a type.
func (m *pieceModel) texts(t *Tokenizer, kind uint8) (list []string) {
	for id, k := range m.types {
		if k == kind {
			list = append(list, string(t.vocab.token(int32(id))))
		}
	}
	return list
}

// bytes returns the pieces that are bytes.
func (m *pieceModel) bytes(t *Tokenizer) (byteID [256]int32) {
	for i := range byteID {
		byteID[i] = -1
	}
	if m.byteFallback {
		for id, kind := range m.types {
			if b, ok := byteToken(t.vocab.token(int32(id))); ok && kind == pieceByte {
				byteID[b] = int32(id)
			}
		}
	}
	return byteID
}

// unknown is the piece for what has none.
func (m *pieceModel) unknown() int32 { return int32(slices.Index(m.types, pieceUnknown)) }

// spells tells whether a piece may stand for text.
func (m *pieceModel) spells(id int32) bool {
	k := m.types[id]
	return k == pieceNormal || k == pieceUser || k == pieceUnused
}

func (m *pieceModel) bpe(t *Tokenizer, byteID [256]int32, user []string) model {
	s := &spm{
		index: newIndex(&t.vocab, len(m.types)), scores: m.scores, byteID: byteID, unknown: m.unknown(), frozen: newTextSet(user),
		seen: newMemo(len(m.types)),
	}
	for id, k := range m.types {
		if m.spells(int32(id)) {
			s.index.add(int32(id))
		}
		if k == pieceUnused {
			if s.unused == nil {
				s.unused = make([]bool, len(m.types))
			}
			s.unused[id] = true
		}
	}
	s.initJoints(&t.vocab, m.spells)
	if m.escapeSpaces && s.index.find([]byte(spaceSign)) >= 0 {
		t.stages = append(t.stages, newSpaceCut(&t.vocab, m.spells))
	}
	return s
}

func (m *pieceModel) unigram(t *Tokenizer, byteID [256]int32) model {
	u := &unigram{
		scores:  make([]float64, len(m.types)), //mem:ok bounded by the file
		unknown: m.unknown(), byteID: byteID, bytes: m.byteFallback, narrow: true, fuse: true,
	}
	least := float32(math.Inf(1))
	for id, k := range m.types {
		u.scores[id] = float64(m.scores[id])
		if k == pieceNormal {
			least = min(least, m.scores[id])
		}
	}
	if math.IsInf(float64(least), 1) {
		least = 0
	}
	for id, k := range m.types {
		if k == pieceUser { // any is better than its parts
			u.scores[id] = 0
		}
	}
	u.penalty = float64(least - unknownPenalty)
	u.trie = newTrie(&t.vocab, func(id int32) bool { return m.types[id] == pieceNormal || m.types[id] == pieceUser })
	return u
}
