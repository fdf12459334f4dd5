package chat

import "strconv"

// tupleOr parses an expression, or several with commas between, which are a tuple. In a loop, "if" ends it.
func (p *parser) tupleOr(loop bool) (node, error) {
	one := p.expression
	if loop {
		one = p.or
	}
	x, err := one()
	if err != nil || !p.is(",") {
		return x, err
	}
	l := &listNode{items: []node{x}, tuple: true}
	for p.accept(",") {
		if k := p.peek().kind; k == blockEnd || k == outEnd {
			break
		}
		if x, err = one(); err != nil {
			return nil, err
		}
		l.items = append(l.items, x)
	}
	return l, nil
}

// expression parses "a if b else c" and all that binds tighter.
func (p *parser) expression() (node, error) {
	if err := p.enter(p.peek().line); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	x, err := p.or()
	for err == nil && p.accept("if") {
		c := &choiceNode{yes: x}
		if c.test, err = p.or(); err != nil {
			break
		}
		if p.accept("else") {
			c.no, err = p.expression()
		}
		x = c
	}
	return x, err
}

// binary parses operators of one level, which associate to the left.
func (p *parser) binary(next func() (node, error), ops ...string) (node, error) {
	x, err := next()
	for n := 0; err == nil; n++ {
		op := ""
		for _, o := range ops {
			if p.is(o) {
				op = o
			}
		}
		if op == "" {
			break
		}
		line := p.next().line
		if n > maxDepth {
			return nil, errorAt(line, "an expression has more than %d operators in a row", maxDepth)
		}
		var y node
		if y, err = next(); err == nil {
			x = &binaryNode{line, op, x, y}
		}
	}
	return x, err
}

func (p *parser) or() (node, error)  { return p.binary(p.and, "or") }
func (p *parser) and() (node, error) { return p.binary(p.not, "and") }

func (p *parser) not() (node, error) {
	if !p.is("not") {
		return p.comparison()
	}
	t := p.next()
	if err := p.enter(t.line); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	x, err := p.not()
	return &unaryNode{t.line, "not", x}, err
}

func (p *parser) comparison() (node, error) {
	x, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareNode{line: p.peek().line, x: x}
	for {
		op := ""
		switch t := p.peek(); {
		case t.kind == operator && (t.text == "==" || t.text == "!=" || t.text == "<" || t.text == ">" || t.text == "<=" || t.text == ">="):
			op = p.next().text
		case p.is("in"):
			op = p.next().text
		case p.is("not") && p.tokens[p.pos+1].kind == nameToken && p.tokens[p.pos+1].text == "in":
			p.pos += 2
			op = "not in"
		}
		if op == "" {
			break
		}
		y, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.ys = append(c.ops, op), append(c.ys, y)
	}
	if len(c.ops) == 0 {
		return x, nil
	}
	return c, nil
}

func (p *parser) sum() (node, error)     { return p.binary(p.concat, "+", "-") }
func (p *parser) concat() (node, error)  { return p.binary(p.product, "~") }
func (p *parser) product() (node, error) { return p.binary(p.power, "*", "/", "//", "%") }

func (p *parser) power() (node, error) {
	return p.binary(func() (node, error) { return p.unary(true) }, "**")
}

func (p *parser) unary(filtered bool) (node, error) {
	t := p.peek()
	if err := p.enter(t.line); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	var x node
	var err error
	if p.is("-") || p.is("+") {
		p.pos++
		if x, err = p.unary(false); err != nil {
			return nil, err
		}
		x = &unaryNode{t.line, t.text, x}
	} else {
		if x, err = p.primary(); err != nil {
			return nil, err
		}
		if x, err = p.postfix(x); err != nil {
			return nil, err
		}
	}
	if filtered {
		return p.filtered(x)
	}
	return x, nil
}

func (p *parser) primary() (node, error) {
	t := p.next()
	switch t.kind {
	case stringToken:
		s := t.text
		for p.peek().kind == stringToken { // as in Python
			s += p.next().text
		}
		return &constant{s}, nil
	case intToken:
		return integer(t)
	case floatToken:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, errorAt(t.line, "%s is too large", t.text)
		}
		return &constant{f}, nil
	case nameToken:
		switch t.text {
		case "true", "True":
			return &constant{true}, nil
		case "false", "False":
			return &constant{false}, nil
		case "none", "None":
			return &constant{nil}, nil
		}
		return &name{t.text}, nil
	case operator:
		switch t.text {
		case "(":
			return p.parenthesis()
		case "[":
			l := &listNode{}
			for !p.accept("]") {
				x, err := p.expression()
				if err != nil {
					return nil, err
				}
				l.items = append(l.items, x)
				if !p.accept(",") && !p.is("]") {
					return nil, errorAt(p.peek().line, "got %q, want %q", p.peek().text, "]")
				}
			}
			return l, nil
		case "{":
			return p.dictionary()
		}
	}
	return nil, errorAt(t.line, "unexpected %q", t.text)
}

func (p *parser) parenthesis() (node, error) {
	if p.accept(")") {
		return &listNode{tuple: true}, nil
	}
	x, err := p.expression()
	if err != nil {
		return nil, err
	}
	if p.is(",") {
		l := &listNode{items: []node{x}, tuple: true}
		for p.accept(",") && !p.is(")") {
			if x, err = p.expression(); err != nil {
				return nil, err
			}
			l.items = append(l.items, x)
		}
		x = l
	}
	_, err = p.expect(operator, ")")
	return x, err
}

func (p *parser) dictionary() (node, error) {
	d := &dictNode{}
	for !p.accept("}") {
		k, err := p.expression()
		if err != nil {
			return nil, err
		}
		if _, err := p.expect(operator, ":"); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, k), append(d.values, v)
		if !p.accept(",") && !p.is("}") {
			return nil, errorAt(p.peek().line, "got %q, want %q", p.peek().text, "}")
		}
	}
	return d, nil
}

// postfix parses members, subscripts and calls.
func (p *parser) postfix(x node) (node, error) {
	for n := 0; ; n++ {
		t := p.peek()
		if t.kind != operator {
			return x, nil
		}
		if n > maxDepth {
			return nil, errorAt(t.line, "an expression has more than %d members in a row", maxDepth)
		}
		switch t.text {
		case ".":
			p.pos++
			m := p.next()
			switch m.kind {
			case nameToken:
				x = &getNode{t.line, x, m.text}
			case intToken:
				at, err := integer(m)
				if err != nil {
					return nil, err
				}
				x = &indexNode{t.line, x, at}
			default:
				return nil, errorAt(m.line, "got %q, want a name", m.text)
			}
		case "[":
			p.pos++
			y, err := p.subscript(t.line, x)
			if err != nil {
				return nil, err
			}
			x = y
		case "(":
			p.pos++
			c := &callExpr{line: t.line, f: x}
			var err error
			if c.args, c.names, c.named, err = p.arguments(); err != nil {
				return nil, err
			}
			x = c
		default:
			return x, nil
		}
	}
}

func (p *parser) subscript(line int, x node) (node, error) {
	var parts [3]node
	n := 0
	for {
		if !p.is(":") && !p.is("]") {
			y, err := p.expression()
			if err != nil {
				return nil, err
			}
			parts[n] = y
		}
		if p.accept("]") {
			break
		}
		if _, err := p.expect(operator, ":"); err != nil {
			return nil, err
		}
		if n++; n > 2 {
			return nil, errorAt(line, "a slice has more than three parts")
		}
	}
	if n > 0 {
		return &sliceNode{line, x, parts[0], parts[1], parts[2]}, nil
	}
	if parts[0] == nil {
		return nil, errorAt(line, "a subscript is empty")
	}
	return &indexNode{line, x, parts[0]}, nil
}

// filtered parses filters and tests.
func (p *parser) filtered(x node) (node, error) {
	for n := 0; ; n++ {
		if n > maxDepth {
			return nil, errorAt(p.peek().line, "an expression has more than %d filters in a row", maxDepth)
		}
		switch {
		case p.accept("|"):
			c, err := p.filterCall()
			if err != nil {
				return nil, err
			}
			x = &filterExpr{x, c}
		case p.accept("is"):
			t := &testNode{x: x, not: p.accept("not")}
			m, err := p.expect(nameToken, "")
			if err != nil {
				return nil, err
			}
			t.line, t.name = m.line, m.text
			if p.accept("(") {
				if t.args, t.names, t.named, err = p.arguments(); err != nil {
					return nil, err
				}
			} else if k := p.peek(); k.kind == stringToken || k.kind == intToken || k.kind == floatToken ||
				k.kind == nameToken && !p.is("else") && !p.is("or") && !p.is("and") && !p.is("if") && !p.is("is") && !p.is("in") && !p.is("not") ||
				p.is("[") || p.is("{") {
				y, err := p.primary()
				if err != nil {
					return nil, err
				}
				if y, err = p.postfix(y); err != nil {
					return nil, err
				}
				t.args = []node{y}
			}
			x = t
		case p.is("("):
			p.pos++
			c := &callExpr{line: p.peek().line, f: x}
			var err error
			if c.args, c.names, c.named, err = p.arguments(); err != nil {
				return nil, err
			}
			x = c
		default:
			return x, nil
		}
	}
}
