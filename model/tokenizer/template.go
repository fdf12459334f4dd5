package tokenizer

import "fmt"

// templatePiece is a place in a template: a special token, or the text.
type templatePiece struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

// templateSpecial is the tokens that a template's special token is.
type templateSpecial struct {
	IDs []int64 `json:"ids"`
}

// frame is the tokens that a tokenizer puts around a text.
type frame struct{ before, after []int32 }

// add puts the tokens of a post_processor around those that are there.
func (f *frame) add(c *component, vocabSize int) error {
	if c == nil {
		return nil
	}
	id := func(x int64) (int32, error) {
		if x < 0 || x >= int64(vocabSize) {
			return 0, fmt.Errorf("tokenizer: post_processor has id %d, want one below %d", x, vocabSize)
		}
		return int32(x), nil
	}
	switch c.Type {
	case "ByteLevel":
		return nil
	case "Sequence":
		for i := range c.Processors {
			if err := f.add(&c.Processors[i], vocabSize); err != nil {
				return err
			}
		}
		return nil
	case "TemplateProcessing":
		return f.addTemplate(c, id)
	case "BertProcessing", "RobertaProcessing":
		for i, pair := range [][]any{c.CLS, c.Sep} {
			if len(pair) != 2 {
				return fmt.Errorf("tokenizer: a post_processor of type %s lacks its tokens", c.Type)
			}
			n, ok := pair[1].(float64)
			if !ok || n != float64(int64(n)) {
				return fmt.Errorf("tokenizer: a post_processor of type %s lacks its tokens", c.Type)
			}
			token, err := id(int64(n))
			if err != nil {
				return err
			}
			if i == 0 {
				f.before = append([]int32{token}, f.before...)
			} else {
				f.after = append(f.after, token)
			}
		}
		return nil
	}
	return unsupported("a post_processor", c.Type)
}

// addTemplate adds what a template has before and after the text.
func (f *frame) addTemplate(c *component, id func(int64) (int32, error)) error {
	var before, after []int32
	passed := false
	for _, p := range c.Single {
		switch {
		case p.Sequence != nil:
			if passed {
				return fmt.Errorf("tokenizer: a template that repeats the text is not supported")
			}
			passed = true
		case p.SpecialToken != nil:
			special, ok := c.Special[p.SpecialToken.ID]
			if !ok {
				return fmt.Errorf("tokenizer: the template's token %q has no ids", p.SpecialToken.ID)
			}
			for _, x := range special.IDs {
				token, err := id(x)
				if err != nil {
					return err
				}
				if passed {
					after = append(after, token)
				} else {
					before = append(before, token)
				}
			}
		}
	}
	if !passed {
		return fmt.Errorf("tokenizer: a template without the text is not supported")
	}
	f.before = append(before, f.before...)
	f.after = append(f.after, after...)
	return nil
}
