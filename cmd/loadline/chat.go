package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"loadline/device"
	"loadline/device/cpu"
	"loadline/internal/regular"
	"loadline/mem"
	"loadline/model/tokenizer"
	"loadline/model/weights"
	"loadline/serve"
	"loadline/serve/chat"
	"loadline/serve/sample"
)

// chatFlags are the flags of chat.
type chatFlags struct {
	samplingFlags
	engineFlags
	model, system, template string
	maxTokens               int
}

// defaultChatContext is the context of a chat where neither flag nor model say less.
const defaultChatContext = 4096

// maxTemplateFile is the longest template that is read.
const maxTemplateFile = 1 << 20

// goodChatContext is the smallest context that chat prefers to weights that are read again for every token.
const goodChatContext = 256

// leastChatContext is the smallest context that chat takes by itself where memory holds no more.
const leastChatContext = 128

func (a *app) chatCommand() *cobra.Command {
	x := &chatFlags{samplingFlags: chatSampling()}
	c := &cobra.Command{
		Use:   "chat [MODEL]",
		Short: "Talk with a model",
		Long: `chat reads messages from the terminal or a pipe, a line each (a line that ends with a backslash goes on with the next), and answers
each one. The model sees the whole conversation, in the words of its own chat template. When the context is full, the oldest turns are
left out, and chat says so. Sampling flags that are not given are as the model's files have them (see generate). Of what gpt-oss says
only the channel final is the answer; the others are shown dim on a terminal. Ctrl-C ends a reply; at the prompt it ends the chat.

  /reset         forget what was said; the system's message stays
  /system TEXT   set the system's message; without TEXT there is none
  /help          list these
  /exit          end the chat, as the end of the input does`,
		Example: `  loadline chat model.gguf
  loadline chat HuggingFaceTB/SmolLM2-135M-Instruct --system "You are a pirate." --temperature 0
  echo "What is the capital of France?" | loadline chat model.gguf --json`,
		Args: atMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := modelArgument(&x.model, args); err != nil {
				return err
			}
			return a.chat(x)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&x.model, "model", "", "model at `PATH`, as of generate")
	f.StringVar(&x.system, "system", "", "`TEXT` that says what the model is to be")
	f.IntVar(&x.maxTokens, "max-tokens", 1024, "most tokens of a reply")
	x.samplingFlags.register(f)
	x.engineFlags.register(f, fmt.Sprintf("%d, or what the model and --memory hold", defaultChatContext))
	f.StringVar(&x.template, "chat-template", "", "Jinja template in `FILE`, in place of the model's own")
	return c
}

func (x *chatFlags) validate() error {
	switch {
	case x.model == "":
		return whichModel()
	case x.maxTokens < 1 || x.maxTokens > maxTokens:
		return usage("--max-tokens 1024", "--max-tokens %d: want 1 to %d", x.maxTokens, maxTokens)
	}
	return errors.Join(x.engineFlags.validate(), x.samplingFlags.validate(), present("--chat-template", x.template))
}

// chatDocument is chat's document.
type chatDocument struct {
	memoryReport
	streamReport
	Messages        []chatMessage `json:"messages"` // all that was said, also before a reset
	Context         int           `json:"context"`
	Kernels         string        `json:"kernels"`
	Dropped         int           `json:"dropped_turns"` // turns that no longer fitted
	TokensPerSecond float64       `json:"tokens_per_second"`
}

// chatting is one call of chat.
type chatting struct {
	*chatFlags
	a      *app
	model  *weights.Model
	tok    *tokenizer.Tokenizer
	job    *serve.Job
	dev    device.Device
	conv   conversation
	params sample.Params
	ends   []int32
	doc    chatDocument
	tokens int // of all replies
	took   float64
}

// chat is the verb.
func (a *app) chat(f *chatFlags) (err error) {
	if err := f.validate(); err != nil {
		return err
	}
	x := &chatting{chatFlags: f, a: a}
	var limit mem.Bytes
	if x.model, limit, err = openServed(f.model, f.memory); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.model.Close()) }()
	if err := x.prepare(limit); err != nil {
		return err
	}
	if err := x.plan(limit); err != nil {
		return err
	}
	settle(x.job.Options.Runtime)
	return x.run(limit)
}

// prepare reads what a chat needs besides weights.
func (x *chatting) prepare(limit mem.Bytes) (err error) {
	if x.tok, err = modelTokenizer(x.model, limit); err != nil {
		return err
	}
	x.conv = conversation{tok: x.tok, system: x.chatFlags.system}
	text, wrong := x.model.ReadTemplate()
	if x.chatFlags.template != "" {
		p, err := regular.ReadAll(x.chatFlags.template, maxTemplateFile)
		if err != nil {
			return fmt.Errorf("--chat-template: %w", err)
		}
		text, wrong = string(p), nil
	}
	if wrong != nil {
		return advise(wrong, "mend that file, or --chat-template FILE")
	}
	if text == "" {
		return advise(fmt.Errorf("%s has no chat template", x.model.Path), "loadline generate goes on from a text; or --chat-template FILE")
	}
	if x.conv.template, err = chat.Parse(text); err != nil {
		return advise(err, "--chat-template FILE, with a template that can be read")
	}
	x.conv.tokens = templateTokens(x.model, x.tok)
	vocab := x.model.Config.VocabSize
	if x.ends, err = x.samplingFlags.ends(chatEnds(x.model, x.tok), x.tok, vocab); err != nil {
		return err
	}
	if err := x.samplingFlags.take(x.model, x.a.say); err != nil {
		return err
	}
	x.params, err = x.samplingFlags.params(x.a.seed, x.tok, vocab)
	return err
}

// plan plans the engine. A context that nobody asked for is made smaller until it fits.
func (x *chatting) plan(limit mem.Bytes) error {
	positions := x.model.Config.MaxPositionEmbeddings
	kv, err := kvTypes(x.kvType)
	if err != nil {
		return err
	}
	o := serve.Options{
		Config: x.model.Config, KVTypes: kv, Types: x.model.Types, Memory: limit, Context: x.engineFlags.context, BlockSize: x.blockSize, PrefillChunk: x.prefillChunk,
		Runtime: runtimeWith(x.tok) + x.model.HeapBytes(),
	}
	if o.Context == 0 {
		o.Context = min(defaultChatContext, positions)
	}
	if err := checkContext(o.Context, positions); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return usage("loadline chat --help lists the settings", "%v", err)
	}
	x.dev = cpu.New(cpu.Options{Threads: x.a.computeThreads(1), Set: x.set})
	job, err := x.planContext(o, x.engineFlags.context > 0)
	if err != nil {
		return x.a.refuseEngine(err, nil)
	}
	x.job = job
	x.a.notes(x.model, job)
	x.conv.context, x.conv.positions = job.Options.Context, positions
	x.conv.reserve = max(1, min(x.maxTokens, job.Options.Context/4))
	return nil
}

// planContext plans the engine. A context that nobody asked for gives way: to weights in memory first, and then to the limit.
func (x *chatting) planContext(o serve.Options, asked bool) (*serve.Job, error) {
	if asked {
		return serve.Plan(o, x.dev)
	}
	say := func(c int) {
		x.conv.full = true
		x.a.say("the context is %d tokens, not %d: %v holds no more\n", c, o.Context, o.Memory)
	}
	short := o
	short.InMemory = true
	job, err := serve.Plan(short, x.dev)
	var no *serve.DoesNotFitError
	if !errors.As(err, &no) {
		return job, err
	}
	if short.Context = shorter(no); short.Context >= goodChatContext {
		if job, err := serve.Plan(short, x.dev); err == nil {
			say(short.Context)
			return job, nil
		}
	}
	job, err = serve.Plan(o, x.dev)
	if errors.As(err, &no) && no.Nearest != nil && no.Nearest.Context >= leastChatContext {
		say(no.Nearest.Context)
		return serve.Plan(*no.Nearest, x.dev)
	}
	return job, err
}

// shorter is the context whose keys and values take about as much less as is missing, 0 if there is none.
func shorter(no *serve.DoesNotFitError) int {
	for _, l := range no.Largest {
		if l.Purpose == mem.KVBlocks {
			c := int64(no.Wanted.Context)
			c -= int64(no.Need-no.Wanted.Memory) * c / int64(l.Bytes) * 21 / 20 // blocks are whole, and some workspace goes with them
			return int(max(c, 0)) / 64 * 64
		}
	}
	return 0
}

// run talks until the input ends.
func (x *chatting) run(limit mem.Bytes) (err error) {
	ledger := mem.NewLedger(mem.Limits{Memory: limit})
	reads := newMeter(x.a, x.job, x.model.Source)
	e, err := serve.New(x.job, x.dev, device.Env{Ledger: ledger}, reads.source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	x.doc = chatDocument{Messages: []chatMessage{}, Context: x.conv.context, Kernels: x.set.Name()}
	if x.conv.system != "" {
		x.doc.Messages = append(x.doc.Messages, chatMessage{Role: "system", Content: x.conv.system})
	}
	if err := x.a.log.write("start", map[string]any{"verb": "chat", "context": x.doc.Context, "limit_bytes": limit}); err != nil {
		return err
	}
	reads.reset()
	if err := x.talk(e); err != nil {
		return err
	}
	x.doc.streamReport = reads.report()
	if x.doc.memoryReport, err = reportMemory(limit, x.job.Promise.Peak, ledger.Peak()); err != nil {
		return err
	}
	x.doc.TokensPerSecond = float64(x.tokens) / max(x.took, 1e-9)
	x.doc.Seconds = x.a.seconds()
	return errors.Join(x.finish(), e.Check())
}

// finish prints the document, or for people what it took.
func (x *chatting) finish() error {
	d := &x.doc
	x.a.say("%s, %.1f tokens/s; memory promised %v, ledger %v, process peak RSS %v of %v%s\n",
		count(x.tokens, "token"), d.TokensPerSecond, d.Predicted, d.Ledger, d.RSS, d.Limit, d.streamReport.words())
	if err := x.a.log.write("end", map[string]any{"tokens": x.tokens, "rss_peak_bytes": d.RSS, "seconds": d.Seconds}); err != nil {
		return err
	}
	if x.a.json {
		if err := x.a.document(d); err != nil {
			return err
		}
	}
	return d.check()
}

// talk reads messages and answers them.
func (x *chatting) talk(e *serve.Engine) error {
	in, typed := readMessages(x.a.in), isTerminal(x.a.in)
	if typed {
		x.a.say("%d tokens of context; /help lists commands, /exit or Ctrl-D ends\n", x.doc.Context)
	}
	for {
		if typed {
			fmt.Fprint(x.a.err, "> ")
		}
		ctx, stop := x.a.interruptible("leaving")
		text, ok, err := in.next(ctx)
		stop()
		if err != nil || !ok {
			return err
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		if done, known := x.command(text); done {
			return nil
		} else if known {
			continue
		}
		err = x.answer(e, text)
		if long := (*longMessageError)(nil); typed && errors.As(err, &long) { // who types can go on with a shorter one
			fmt.Fprintf(x.a.err, "%v; %s\n", long, long.Advice())
			err = nil
		}
		if err != nil {
			return err
		}
	}
}

// chatCommands says which commands there are.
const chatCommands = "/reset forgets what was said, /system TEXT sets the system's message, /help lists these, /exit ends; Ctrl-C ends a reply"

// isCommand tells whether a word is that of a command, be there such a one or not: a path or a number is not.
func isCommand(word string) bool {
	name, ok := strings.CutPrefix(word, "/")
	return ok && name != "" && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz") == ""
}

// command does what a line that is a command says. done ends the chat; known is false for lines that are messages. A command that there is not
// does nothing: a slip is no message.
func (x *chatting) command(line string) (done, known bool) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if isCommand(word) && !slices.Contains([]string{"/system", "/reset", "/help", "/exit", "/quit"}, word) {
		fmt.Fprintf(x.a.err, "there is no command %s: %s\n", plain(word), chatCommands)
		return false, true
	}
	switch rest = strings.TrimSpace(rest); {
	case word == "/system":
		x.conv.system = rest
		x.doc.Messages = append(x.doc.Messages, chatMessage{Role: "system", Content: rest})
		x.a.say("the system's message is %q\n", rest)
	case rest != "":
		return false, false
	case word == "/exit" || word == "/quit":
		return true, true
	case word == "/reset":
		x.conv.reset()
		x.a.say("a new conversation\n")
	case word == "/help":
		fmt.Fprintln(x.a.err, chatCommands)
	default:
		return false, false
	}
	return false, true
}

// answer answers a message.
func (x *chatting) answer(e *serve.Engine, user string) error {
	prompt, dropped, err := x.conv.prompt(user)
	if dropped > 0 {
		x.doc.Dropped += dropped
		x.a.say("the context of %d tokens is full: the oldest %s left out\n", x.doc.Context, map[bool]string{true: "turn is", false: count(dropped, "turn") + " are"}[dropped == 1])
	}
	if err != nil {
		return err
	}
	reply := chatMessage{Role: "assistant", PromptTokens: len(prompt)}
	out := io.Discard
	if !x.a.json || !x.a.quiet {
		out = x.a.text()
	}
	ctx, stop := x.a.interruptible("ending the reply; once more to stop at once")
	began := x.a.seconds()
	err = x.reply(ctx, e, prompt, &reply, out)
	stop()
	if err != nil {
		return err
	}
	took := x.a.seconds() - began
	x.tokens, x.took = x.tokens+len(reply.TokenIDs), x.took+took
	x.conv.add(user, reply.Content)
	x.doc.Messages = append(x.doc.Messages, chatMessage{Role: "user", Content: user}, reply)
	if isTerminal(x.a.err) {
		x.a.say("[%s, %.1f tokens/s, %d of %d of the context]\n", count(len(reply.TokenIDs), "token"), float64(len(reply.TokenIDs))/max(took, 1e-9),
			len(prompt)+len(reply.TokenIDs), x.doc.Context)
	}
	return x.a.log.write("turn", map[string]any{"prompt_tokens": len(prompt), "cached_tokens": reply.CachedTokens, "tokens": len(reply.TokenIDs), "finish": reply.Finish, "seconds": took})
}

// reply generates the answer to a prompt; its text goes out as it comes.
func (x *chatting) reply(ctx context.Context, e *serve.Engine, prompt []int32, m *chatMessage, out io.Writer) error {
	s := &textStream{decoder: x.tok.NewDecoder().SkipSpecial(), cut: cutter{stops: x.stop}, out: out}
	request := serve.Request{
		ID: "chat", Prompt: prompt, Params: x.params, MaxTokens: min(x.maxTokens, x.doc.Context-len(prompt)), Stop: x.ends,
	}
	var aside io.Writer
	if !x.a.quiet && isTerminal(x.a.err) {
		aside = x.a.err
	}
	s.aside = newThoughts(x.tok, prompt, aside)
	err := s.run(ctx, e, request, func(ev *serve.Event) { m.CachedTokens = ev.Cached })
	if err != nil {
		return err
	}
	m.TokenIDs, m.Content, m.Finish = s.ids, s.text.String(), s.finish
	if s.aside != nil {
		m.Thinking = s.aside.text.String()
	}
	_, err = fmt.Fprintln(out)
	return err
}
