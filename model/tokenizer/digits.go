package tokenizer

// rightGroups is the stage that cuts runs of numbers into groups of three counted from the right: 1234567 is 1, 234, 567. What precedes
// the first group of a run stays in one piece with it; patterns that follow cut there again, but see that piece's beginning and end.
// (llama.cpp's code for `\d{1,3}(?=(?:\d{3})*\b)`.)
type rightGroups struct{}

func (rightGroups) apply(e *encoder, i int, p []byte) {
	from := 0 // of the piece
	for at := 0; at < len(p); {
		if t, m := traitsOf(p[at:]); t&isNumber == 0 {
			at += m
			continue
		}
		count := 0 // of the numbers from at on
		for end := at; end < len(p); count++ {
			t, m := traitsOf(p[end:])
			if t&isNumber == 0 {
				break
			}
			end += m
		}
		for ; count > 0; count-- {
			_, m := traitsOf(p[at:])
			at += m
			if count%3 == 1 {
				e.piece(i+1, p[from:at])
				from = at
			}
		}
	}
	e.piece(i+1, p[from:])
}

// aheadGroups is the stage that cuts before each group of three ASCII digits counted from the right, by `(?=(\d{3})+(?!\d))`.
type aheadGroups struct{}

func (aheadGroups) apply(e *encoder, i int, p []byte) {
	from := 0 // of the piece
	for at := 0; at < len(p); at++ {
		end := at
		for end < len(p) && p[end] >= '0' && p[end] <= '9' {
			end++
		}
		for at += (end - at) % 3; at < end; at += 3 {
			e.piece(i+1, p[from:at])
			from = at
		}
	}
	e.piece(i+1, p[from:])
}
