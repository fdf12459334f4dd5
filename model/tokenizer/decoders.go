package tokenizer

import "fmt"

// read takes what a file's decoder does.
func (d *decoding) read(c *component) error {
	if c == nil {
		d.joined = true
		return nil
	}
	var all []component
	var flatten func(c *component)
	flatten = func(c *component) {
		if c.Type != "Sequence" {
			all = append(all, *c)
			return
		}
		for i := range c.Decoders {
			flatten(&c.Decoders[i])
		}
	}
	flatten(c)
	fused := false
	for i := range all {
		c := &all[i]
		switch c.Type {
		case "ByteLevel", "ByteFallback": // tokens are kept as the bytes that they are
		case "Fuse":
			fused = true
		case "Replace":
			if c.Pattern == nil || c.Pattern.String == nil || *c.Pattern.String == "" {
				return fmt.Errorf("tokenizer: a decoder of type Replace without a text to replace is not supported")
			}
			d.replace = append(d.replace, replaced{[]byte(*c.Pattern.String), []byte(c.Content)})
		case "Strip":
			if !fused || c.Stop != 0 || c.Content != " " || c.Start < 0 {
				return fmt.Errorf("tokenizer: a decoder of type Strip is supported for spaces at the beginning of a text alone")
			}
			d.strip = c.Start
		case "Metaspace":
			sign := c.Replacement
			if sign == "" {
				sign = spaceSign
			}
			d.replace = append(d.replace, replaced{[]byte(sign), []byte(" ")})
			if c.PrependScheme != "never" && (c.PrependScheme != "" || isTrue(c.AddPrefixSpace, true)) {
				d.bare = []byte(sign)
			}
		case "WordPiece":
			d.pieces, d.inner, d.cleanup = true, c.Prefix, c.Cleanup
		case "BPEDecoder":
			d.end = c.Suffix
		default:
			return unsupported("a decoder", c.Type)
		}
	}
	return nil
}
