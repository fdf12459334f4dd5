package chat

import "strconv"

// node is a statement or an expression of a template.
type node interface{}

type (
	textNode  struct{ text string }
	printNode struct {
		line int
		x    node
	}
	forNode struct {
		line         int
		targets      []string
		over, filter node
		body, other  []node
	}
	ifNode struct {
		line  int
		tests []node // the branch without a test is last
		body  [][]node
	}
	setNode struct {
		line    int
		targets []string // a name, several, or one with its member: ns.x
		member  string
		x       node   // nil for a block
		body    []node // of a block
		filters []filterCall
	}
	macroNode struct {
		name     string
		params   []string
		defaults []node // of the last parameters
		body     []node
	}
	callNode struct { // {% call f(x) %}body{% endcall %}
		line int
		call node
		body *macroNode
	}
	filterNode struct {
		line    int
		filters []filterCall
		body    []node
	}
	scopeNode struct { // {% with %} and {% generation %}
		names  []string
		values []node
		body   []node
	}
	breakNode    struct{}
	continueNode struct{}

	constant struct{ v any }
	name     struct{ name string }
	listNode struct {
		items []node
		tuple bool
	}
	dictNode struct{ keys, values []node }
	getNode  struct {
		line int
		x    node
		name string
	}
	indexNode struct {
		line  int
		x, at node
	}
	sliceNode struct {
		line              int
		x, from, to, step node
	}
	callExpr struct {
		line  int
		f     node
		args  []node
		names []string
		named []node
	}
	unaryNode struct {
		line int
		op   string
		x    node
	}
	binaryNode struct {
		line int
		op   string
		x, y node
	}
	compareNode struct {
		line int
		x    node
		ops  []string
		ys   []node
	}
	choiceNode struct{ test, yes, no node }
	filterExpr struct {
		x node
		filterCall
	}
	testNode struct {
		x   node
		not bool
		filterCall
	}
)

// filterCall is the use of a filter or test.
type filterCall struct {
	line  int
	name  string
	args  []node
	names []string
	named []node
}

// Bounds on a template, and on what one rendering may do.
const (
	maxTemplate = 1 << 20
	maxDepth    = 200
)

// parser builds the tree of a template.
type parser struct {
	tokens []token
	pos    int
	depth  int
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != endToken {
		p.pos++
	}
	return t
}

func (p *parser) is(text string) bool {
	t := p.peek()
	return (t.kind == operator || t.kind == nameToken) && t.text == text
}

func (p *parser) accept(text string) bool {
	if p.is(text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expect(k kind, text string) (token, error) {
	t := p.next()
	if t.kind != k || text != "" && t.text != text {
		want := text
		if want == "" {
			want = "a name"
		}
		return t, errorAt(t.line, "got %q, want %q", t.text, want)
	}
	return t, nil
}

func (p *parser) enter(line int) error {
	if p.depth++; p.depth > maxDepth {
		return errorAt(line, "it is nested deeper than %d", maxDepth)
	}
	return nil
}

// body parses up to a block tag with one of the names, which it leaves after the name.
func (p *parser) body(until ...string) (nodes []node, end string, err error) {
	if err := p.enter(p.peek().line); err != nil {
		return nil, "", err
	}
	defer func() { p.depth-- }()
	for {
		t := p.next()
		switch t.kind {
		case textToken:
			nodes = append(nodes, &textNode{t.text})
		case outBegin:
			x, err := p.tupleOr(false)
			if err != nil {
				return nil, "", err
			}
			if _, err := p.expect(outEnd, "}}"); err != nil {
				return nil, "", err
			}
			nodes = append(nodes, &printNode{t.line, x})
		case blockBegin:
			word, err := p.expect(nameToken, "")
			if err != nil {
				return nil, "", err
			}
			for _, u := range until {
				if word.text == u {
					return nodes, u, nil
				}
			}
			n, err := p.statement(word)
			if err != nil {
				return nil, "", err
			}
			nodes = append(nodes, n)
		case endToken:
			if len(until) > 0 {
				return nil, "", errorAt(t.line, "it ends without %q", until[0])
			}
			return nodes, "", nil
		default:
			return nil, "", errorAt(t.line, "unexpected %q", t.text)
		}
	}
}

// close ends a tag.
func (p *parser) close() error {
	_, err := p.expect(blockEnd, "%}")
	return err
}

// block parses the end of a tag and what follows up to its end tag.
func (p *parser) block(end string) ([]node, error) {
	if err := p.close(); err != nil {
		return nil, err
	}
	body, _, err := p.body(end)
	if err != nil {
		return nil, err
	}
	return body, p.close()
}

func (p *parser) statement(word token) (node, error) {
	switch word.text {
	case "for":
		return p.forStatement(word.line)
	case "if":
		return p.ifStatement(word.line)
	case "set":
		return p.setStatement(word.line)
	case "macro":
		t, err := p.expect(nameToken, "")
		if err != nil {
			return nil, err
		}
		return p.macro(t.text, "endmacro")
	case "call":
		body := &macroNode{name: "caller"}
		if p.is("(") {
			if err := p.params(body); err != nil {
				return nil, err
			}
		}
		call, err := p.expression()
		if err != nil {
			return nil, err
		}
		if _, ok := call.(*callExpr); !ok {
			return nil, errorAt(word.line, "call wants a call")
		}
		body.body, err = p.block("endcall")
		return &callNode{word.line, call, body}, err
	case "filter":
		n := &filterNode{line: word.line}
		var err error
		if n.filters, err = p.filters(); err != nil {
			return nil, err
		}
		n.body, err = p.block("endfilter")
		return n, err
	case "generation":
		body, err := p.block("endgeneration")
		return &scopeNode{body: body}, err
	case "with":
		n := &scopeNode{}
		for p.peek().kind == nameToken {
			t := p.next()
			if _, err := p.expect(operator, "="); err != nil {
				return nil, err
			}
			x, err := p.expression()
			if err != nil {
				return nil, err
			}
			n.names, n.values = append(n.names, t.text), append(n.values, x)
			if !p.accept(",") {
				break
			}
		}
		var err error
		n.body, err = p.block("endwith")
		return n, err
	case "break":
		return &breakNode{}, p.close()
	case "continue":
		return &continueNode{}, p.close()
	}
	return nil, errorAt(word.line, "the statement %q is not supported", word.text)
}

func (p *parser) names() (names []string, err error) {
	paren := p.accept("(")
	for {
		t, err := p.expect(nameToken, "")
		if err != nil {
			return nil, err
		}
		names = append(names, t.text)
		if !p.accept(",") || p.peek().kind != nameToken || p.is("in") {
			break
		}
	}
	if paren {
		if _, err := p.expect(operator, ")"); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (p *parser) forStatement(line int) (node, error) {
	n := &forNode{line: line}
	var err error
	if n.targets, err = p.names(); err != nil {
		return nil, err
	}
	if _, err := p.expect(nameToken, "in"); err != nil {
		return nil, err
	}
	if n.over, err = p.tupleOr(true); err != nil {
		return nil, err
	}
	if p.accept("if") {
		if n.filter, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.is("recursive") {
		return nil, errorAt(line, "recursive loops are not supported")
	}
	if err := p.close(); err != nil {
		return nil, err
	}
	var end string
	if n.body, end, err = p.body("endfor", "else"); err != nil {
		return nil, err
	}
	if end == "else" {
		if n.other, err = p.block("endfor"); err != nil {
			return nil, err
		}
		return n, nil
	}
	return n, p.close()
}

func (p *parser) ifStatement(line int) (node, error) {
	n := &ifNode{line: line}
	for {
		test, err := p.tupleOr(false)
		if err != nil {
			return nil, err
		}
		if err := p.close(); err != nil {
			return nil, err
		}
		body, end, err := p.body("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		n.tests, n.body = append(n.tests, test), append(n.body, body)
		switch end {
		case "else":
			body, err := p.block("endif")
			if err != nil {
				return nil, err
			}
			n.body = append(n.body, body)
			return n, nil
		case "endif":
			return n, p.close()
		}
	}
}

func (p *parser) setStatement(line int) (node, error) {
	n := &setNode{line: line}
	var err error
	if n.targets, err = p.names(); err != nil {
		return nil, err
	}
	if len(n.targets) == 1 && p.accept(".") {
		t, err := p.expect(nameToken, "")
		if err != nil {
			return nil, err
		}
		n.member = t.text
	}
	if p.accept("=") {
		if n.x, err = p.tupleOr(false); err != nil {
			return nil, err
		}
		return n, p.close()
	}
	if p.accept("|") {
		if n.filters, err = p.filters(); err != nil {
			return nil, err
		}
	}
	n.body, err = p.block("endset")
	return n, err
}

// params parses the parameters of a macro.
func (p *parser) params(m *macroNode) error {
	if _, err := p.expect(operator, "("); err != nil {
		return err
	}
	for !p.accept(")") {
		t, err := p.expect(nameToken, "")
		if err != nil {
			return err
		}
		m.params = append(m.params, t.text)
		if p.accept("=") {
			x, err := p.expression()
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, x)
		} else if len(m.defaults) > 0 {
			return errorAt(t.line, "a parameter without a default follows one with")
		}
		if !p.accept(",") && !p.is(")") {
			return errorAt(p.peek().line, "got %q, want %q", p.peek().text, ")")
		}
	}
	return nil
}

func (p *parser) macro(name, end string) (node, error) {
	m := &macroNode{name: name}
	if err := p.params(m); err != nil {
		return nil, err
	}
	var err error
	m.body, err = p.block(end)
	return m, err
}

// filters parses a chain of filters after its first bar.
func (p *parser) filters() (all []filterCall, err error) {
	for {
		c, err := p.filterCall()
		if err != nil {
			return nil, err
		}
		all = append(all, c)
		if !p.accept("|") {
			return all, nil
		}
	}
}

func (p *parser) filterCall() (c filterCall, err error) {
	t, err := p.expect(nameToken, "")
	if err != nil {
		return c, err
	}
	c.line, c.name = t.line, t.text
	for p.accept(".") {
		t, err := p.expect(nameToken, "")
		if err != nil {
			return c, err
		}
		c.name += "." + t.text
	}
	if p.accept("(") {
		c.args, c.names, c.named, err = p.arguments()
	}
	return c, err
}

// arguments parses the arguments of a call after its parenthesis.
func (p *parser) arguments() (args []node, names []string, named []node, err error) {
	for !p.accept(")") {
		t := p.peek()
		if t.kind == nameToken && p.tokens[p.pos+1].kind == operator && p.tokens[p.pos+1].text == "=" {
			p.pos += 2
			x, err := p.expression()
			if err != nil {
				return nil, nil, nil, err
			}
			names, named = append(names, t.text), append(named, x)
		} else {
			x, err := p.expression()
			if err != nil {
				return nil, nil, nil, err
			}
			args = append(args, x)
		}
		if !p.accept(",") && !p.is(")") {
			return nil, nil, nil, errorAt(p.peek().line, "got %q, want %q", p.peek().text, ")")
		}
	}
	return args, names, named, nil
}

// integer reads an int token.
func integer(t token) (node, error) {
	n, err := strconv.ParseInt(t.text, 10, 64)
	if err != nil {
		return nil, errorAt(t.line, "%s is too large", t.text)
	}
	return &constant{n}, nil
}
