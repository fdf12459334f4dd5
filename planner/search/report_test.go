package search

import (
	"encoding/xml"
	"errors"
	"html"
	"io"
	"strconv"
	"strings"
	"testing"

	"loadline/mem"
	"loadline/planner/shape"
)

// TestFactors checks that what logs taught moves the peak by just that, and the purposes still sum to it.
func TestFactors(t *testing.T) {
	ask8 := func(f map[string]float64) *Answer {
		q := ask(t, "Llama-3.1-8B", "H100", Serve, func(q *Question) {
			q.Framework, q.Context, q.Concurrency, q.Factors, q.Hold.Quant = "vllm", 8192, 16, f, "bf16"
		})
		a, err := Plans(q)
		if err != nil || !a.Fits {
			t.Fatalf("got %+v, %v", a, err)
		}
		checkPlan(t, &q, a)
		return a
	}
	plain := ask8(nil).Plans[0]
	learnt := ask8(map[string]float64{"vllm/activations": 1.5, "vllm/nothing": 3, "sglang/weights": 9, "vllm/weights": 1e9}).Plans[0]
	if got, want := learnt.Peak-plain.Peak, plain.ByPurpose["activations"]/2; got < want-2 || got > want+2 {
		t.Errorf("got %v more, want %v", got, want)
	}
}

// TestText checks what people are told.
func TestText(t *testing.T) {
	a, err := Plans(ask(t, "Llama-3.1-70B", "4x8xH100", Train, func(q *Question) { q.Framework, q.GlobalBatch = "megatron", 128 }))
	if err != nil {
		t.Fatal(err)
	}
	text := a.Text()
	t.Log("\n" + text)
	for _, want := range []string{"70.6 B parameters", "4 nodes of 8 × H100", "best: megatron", "next 1:", "next step up:", "weights ", "8 chances in 10", "ZeRO stage"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text has no %q", want)
		}
	}
}

// TestHTML checks that the page is whole, escapes names, needs nothing from elsewhere and has its three figures.
func TestHTML(t *testing.T) {
	q := ask(t, "Llama-3.1-70B", "4x8xH100", Train, func(q *Question) { q.Framework, q.GlobalBatch = "megatron", 128 })
	named := *q.Shape
	named.Name = `<script>alert("x")</script>`
	q.Shape = &named
	a, err := Plans(q)
	if err != nil {
		t.Fatal(err)
	}
	page := a.HTML()
	for _, bad := range []string{"<script", "http:", "https:", "src=", "NaN", "Inf"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q in it", bad)
		}
	}
	for i := range a.Plans {
		want := "--framework megatron --ranks 32 --tp " + strconv.Itoa(a.Plans[i].Config.TP)
		if got := a.Command(&a.Plans[i]); !strings.Contains(got, want) || !strings.Contains(page, html.EscapeString(got)) {
			t.Errorf("the page lacks the command of plan %d: %s", i+1, got)
		}
		if n := a.Plans[i].Stages[0].Peak; a.Plans[i].Config.PP <= 4 && !strings.Contains(page, ">"+n.String()+"</text>") {
			t.Errorf("the bars of plan %d do not say %v", i+1, n)
		}
	}
	if n := strings.Count(page, "<svg"); n != 2*len(a.Plans)+1 {
		t.Errorf("got %d figures, want %d", n, 2*len(a.Plans)+1)
	}
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range a.Frontier {
		if i > 0 && (p.Peak <= a.Frontier[i-1].Peak || p.TokensPerSecond <= a.Frontier[i-1].TokensPerSecond) {
			t.Errorf("frontier: %+v after %+v", p, a.Frontier[i-1])
		}
	}
	if len(a.Frontier) < 2 {
		t.Errorf("got a frontier of %d points", len(a.Frontier))
	}
}

// TestStored checks that a GGUF file's own format is served as it is, by llama.cpp, with layers on the CPU where the
// cache leaves no room.
func TestStored(t *testing.T) {
	q := ask(t, "Llama-3.1-8B", "RTX-4090", Serve, func(q *Question) {
		q.Context, q.Concurrency, q.Stored = 32768, 16, Stored(&shape.GGUF{LinearBits: 4.84, OtherBits: 6.5})
	})
	a, err := Plans(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + a.Text())
	checkPlan(t, &q, a)
	for _, p := range a.Plans {
		if p.Config.System != "llamacpp" || p.Config.Quant != "stored" {
			t.Errorf("got %+v", p.Config)
		}
	}
	if !a.Fits || a.Plans[0].Config.GPULayers == q.Shape.Depth() || a.Plans[0].Host == 0 {
		t.Errorf("64 GiB of cache beside 24: got %+v", a.Plans[0].Config)
	}
}

// TestHost checks that host memory is a limit of its own, and NVMe the tier below it.
func TestHost(t *testing.T) {
	zero := 3
	hold := func(host, nvme mem.Bytes) *Answer {
		a, err := Plans(ask(t, "Llama-3.1-70B", "8xA100-80GB", Train, func(q *Question) {
			q.Framework, q.GlobalBatch, q.Machine.Host, q.Machine.NVMe = "deepspeed", 8, host, nvme
			q.Hold = Hold{ZeRO: &zero, Offload: "optimizer,weights"}
		}))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	rich, poor, disk := hold(2048*mem.GiB, 0), hold(256*mem.GiB, 0), hold(256*mem.GiB, 8192*mem.GiB)
	if !rich.Fits || rich.Plans[0].Host < 512*mem.GiB || rich.Plans[0].Disk != 0 {
		t.Errorf("with 2 TiB: got %+v", rich.Plans[0])
	}
	if poor.Fits || !strings.Contains(poor.Next, "host memory") {
		t.Errorf("with 256 GiB: got %v, %s", poor.Fits, poor.Next)
	}
	if !disk.Fits || disk.Plans[0].Disk == 0 || disk.Plans[0].StepSeconds <= rich.Plans[0].StepSeconds {
		t.Errorf("with NVMe: got %+v", disk.Plans[0])
	}
}
