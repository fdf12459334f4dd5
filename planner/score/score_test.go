package score

import (
	"math"
	"strings"
	"testing"

	"loadline/planner/shape"
)

func load(t testing.TB) *shape.Cards {
	t.Helper()
	cards, err := shape.Load()
	if err != nil {
		t.Fatal(err)
	}
	return cards
}

const header = "id,tier,kind,system,model,arch,gpu,n_gpus,dtype,mbs,gbs,seq,parallel,metric,value,unit,value_gib,step_s,tput,extras,source\n"

// TestRules checks which rows are scored, under which family, and why others are not.
func TestRules(t *testing.T) {
	cards := load(t)
	for _, c := range []struct {
		row  string
		want string // families, or the reason it is skipped
	}{
		{"1,B,train,Megatron-LM CI golden,gpt/x,num-layers=12;hidden-size=512;num-attention-heads=8,A100,8,bf16,4,32,1024,TP=1;PP=2,torch_peak_allocated_last_rank,2.4,GiB,2.4,,,,", "megatron-dense"},
		{"1,B,train,Megatron-LM CI golden,moe/x,num-layers=12;hidden-size=512;num-attention-heads=8;num-experts=4,A100,8,bf16,4,32,1024,TP=1,x,2.4,GiB,2.4,,,,", "megatron-moe"},
		{"1,B,train,Megatron-LM CI golden,hybrid/x,num-layers=12;hidden-size=512;num-attention-heads=8,A100,8,bf16,4,32,1024,TP=1,x,2.4,GiB,2.4,,,,", "megatron-moe"},
		{"1,B,train,Megatron-LM CI golden,gpt/x,num-layers=12;hidden-size=512;num-attention-heads=8,A100,,bf16,4,32,1024,TP=1,x,2.4,GiB,2.4,,,,", "n_gpus is not recorded"},
		{"1,B,train,Megatron-LM CI golden,gpt/x,hidden-size=512;num-attention-heads=8,A100,8,bf16,4,32,1024,TP=1,x,2.4,GiB,2.4,,,,", "num-layers is not recorded"},
		{"1,B,train,Megatron-LM CI golden,gpt/x,num-layers=9999999;hidden-size=512;num-attention-heads=8,A100,8,bf16,4,32,1024,TP=1,x,2.4,GiB,2.4,,,,", "num-layers is 9999999"},
		{"1,B,train,HF PEFT bench,meta-llama/Llama-3.2-3B,,L40S,1,bfloat16,4,,768,,accelerator_memory_max(reserved),22292725760,bytes,20.7617,,,method=lora/r32;trainable=9175040,", "tier B is not scored"},
		{"1,A,train,HF PEFT bench,meta-llama/Llama-3.2-3B,,L40S,1,bfloat16,4,,768,,accelerator_memory_max(reserved),22292725760,bytes,,,,method=lora/r32;trainable=9175040,", "peft"},
		{"1,A,train,HF PEFT bench,Nobody-knows,,L40S,1,bfloat16,4,,768,,accelerator_memory_max(reserved),22292725760,bytes,,,,method=lora/r32,", `model "Nobody-knows" is not known`},
		{"1,A,train,HF PEFT bench,Llama-3.2-3B,,L40S,1,bfloat16,4,,768,,kv_blocks,22292,blocks,,,,method=lora/r32,", `unit "blocks" is not one of memory`},
		{"1,A,train,HF PEFT bench,Llama-3.2-3B,,L40S,1,bfloat16,4,,768,,max,fits,status,,,,method=lora/r32,", `value "fits" is not a positive number`},
		{"1,A,train,HF PEFT bench,Llama-3.2-3B,,L40S,1,bfloat16,4,,768,,max,OOM,status,,,,method=lora/r32,", "ran out of memory, so it has no measured value"},
		{"1,T,infer,FlexGen,OPT-6.7B,,T4-16GB,1,fp16,2,,544,,max_feasible_batch,2,seqs,,,25 tok/s,,", `system "FlexGen" is in no family`},
		{"1,A,train,DeepSpeed 0.16,Llama-2-7B,,A100-80GB,8,bf16,1,,4096,ZeRO=3,peak_allocated,30.5,GB,,,,gc=True,", "deepspeed"},
		{"1,A,train,DeepSpeed Ulysses,Llama-3.1-8B,,H100-80GB,8,bf16,1,,32768,SP=8;ZeRO=3,peak_allocated,30.5,GB,,,,,", "deepspeed"},
		{"1,A,train,torchao,Llama-2-7B,,A100-80GB,1,bf16,1,,2048,,peak,51.6,GB,,,,gc=True,", "torchao"},
		{"1,A,train,torchtitan,Llama-3.1-8B,,H100,8,bf16,1,,8192,FSDP=8;PP=1,x,50,GiB,50,,,compile,", "torchtitan-4d"},
		{"1,A,train,torchtitan,Llama-3.1-8B,,H100,,bf16,1,,8192,FSDP,x,50,GiB,50,,,compile,", "n_gpus is not recorded"},
		{"1,A,infer,llama.cpp-family log,Qwen3-32B,params=32.7 B;size=17.413 GiB (4.566 BPW),,0,Q4_0,,,40960,,kv_total,10240.0,MiB,,,,n_ubatch=512;fa=0;mla=0;kv=f16/f16;model_MiB=CPU:17830.96;kv_MiB=CPU:10240.0;compute_MiB=CPU:5252.01,", "llamacpp-kv llamacpp-weights llamacpp-compute"},
		{"1,A,infer,llama.cpp log,DeepSeek V3 0324,size=200 GiB (2.9 BPW),,0,Q2,,,32768,,kv_total,1166.62,MiB,,,,n_ubatch=512;fa=1;mla=3;kv=q8_0;kv_MiB=CPU:1166.63;compute_MiB=CPU:2662.01,", "llamacpp-kv"},
		{"1,A,infer,llama.cpp log,Llama-2-7B,,,0,Q2,,,512,,x,1,MiB,,,,fa=1,", "no kv_MiB, model_MiB or compute_MiB"},
	} {
		rows, err := Read(strings.NewReader(header + c.row))
		if err != nil {
			t.Fatal(err)
		}
		rep := Score(rows, cards)
		var got []string
		for _, f := range rep.Families {
			got = append(got, f.Name)
		}
		for _, s := range rep.Skipped {
			got = append(got, s.Reason)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.row, text, c.want)
		}
	}
}

// TestUnits checks the bytes of a value in every unit, and that value_gib goes first.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		r    Row
		want float64
	}{
		{Row{Value: "2", Unit: "GB"}, 2e9},
		{Row{Value: "2", Unit: "GB", System: "Qwen finetune"}, 2 << 30},
		{Row{Value: "2", Unit: "GB", System: "HF transformers 4.51.3"}, 2 << 30},
		{Row{Value: "2", Unit: "MB"}, 2 << 20},
		{Row{Value: "2", Unit: "MiB"}, 2 << 20},
		{Row{Value: "2", Unit: "GiB"}, 2 << 30},
		{Row{Value: "2", Unit: "bytes"}, 2},
		{Row{Value: "9", Unit: "GB", ValueGiB: "2"}, 2 << 30},
		{Row{Value: "9", ValueGiB: "2"}, 2 << 30},
	} {
		if got, why := measuredBytes(&c.r); got != c.want || why != "" {
			t.Errorf("%+v: got %g %q, want %g", c.r, got, why, c.want)
		}
	}
	for _, r := range []Row{{Value: "2", Unit: "tokens"}, {Value: "", Unit: "GB"}, {Value: "-1", Unit: "GB"}, {Value: "NaN", Unit: "GB"}, {Value: "1e400", Unit: "GB"}, {Value: "0", Unit: "GB"}} {
		if got, why := measuredBytes(&r); why == "" {
			t.Errorf("%+v: got %g, want a reason", r, got)
		}
	}
}

// TestSummary checks median, p90 (the ⌈0.9 n⌉-th smallest) and bias.
func TestSummary(t *testing.T) {
	f := summarize("x", []float64{0.1, -0.2, 0.3, -0.4, 0.5, 0.6, -0.7, 0.8, 0.9, -1})
	if f.Rows != 10 || math.Abs(f.Median-0.55) > 1e-12 || f.P90 != 0.9 || math.Abs(f.Bias-0.2) > 1e-12 {
		t.Errorf("got %+v, want 10 rows, median 0.55, p90 0.9, bias 0.2", f)
	}
	f = summarize("x", []float64{0.1, -0.3, 0.2})
	if f.Median != 0.2 || f.P90 != 0.3 || f.Bias != 0.1 {
		t.Errorf("got %+v, want median 0.2, p90 0.3, bias 0.1", f)
	}
}

// TestColumns checks that columns may be few, reordered, and rows short.
func TestColumns(t *testing.T) {
	rows, err := Read(strings.NewReader("value,system,unit,model,seq,mbs,extras\n20,HF PEFT bench,GiB,Llama-3.2-3B,768,4,method=lora/x;trainable=9175040\n21,HF PEFT bench,GiB,Llama-3.2-3B\n"))
	if err != nil {
		t.Fatal(err)
	}
	rep := Score(rows, load(t))
	if len(rows) != 2 || rows[0].ID != "1" || rows[1].ID != "2" || len(rep.Pairs) != 2 {
		t.Errorf("got %d rows and %d scored (%v), want 2 and 2", len(rows), len(rep.Pairs), rep.Skipped)
	}
	for _, text := range []string{"", "id,model\n1,x\n", "value,unit\n1,GB\n"} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}

// TestCumulative checks that a row has the options of those above it, from the last baseline on.
func TestCumulative(t *testing.T) {
	table := header
	for _, notes := range []string{"cumulative:baseline(unpacked)", "cumulative:+packed", "cumulative:+compile", "else", "cumulative:+chunked CE"} {
		table += "1,A,train,torchtune,Llama-3.2-3B,,A100,1,bf16,2,,4096,,peak_active,40,GiB,40,,," + notes + ",\n"
	}
	rows, err := Read(strings.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	if got := []int{len(rows[0].Before), len(rows[1].Before), len(rows[2].Before), len(rows[3].Before), len(rows[4].Before)}; got[0] != 0 || got[1] != 1 || got[2] != 2 || got[3] != 0 || got[4] != 3 {
		t.Errorf("got %v rows before, want 0 1 2 0 3", got)
	}
	j, err := tuneJob(rows[4], load(t))
	if err != nil || !j.Compiled || !j.ChunkedCE || j.Seq != 4096 {
		t.Errorf("got compiled %v, chunked %v, seq %d, %v", j.Compiled, j.ChunkedCE, j.Seq, err)
	}
}

func TestMoELayer(t *testing.T) {
	for _, c := range []struct {
		freq string
		want string
	}{{"", "1111"}, {"2", "1010"}, {"([0]*3+[1]*13)", "0001"}, {"([0]*1+[1]*2+[0]*1)", "0110"}, {"[0,1,1]", "0111"}, {"([x]*y)", "1111"}} {
		got := ""
		for i := range 4 {
			if moeLayer(c.freq, i) {
				got += "1"
			} else {
				got += "0"
			}
		}
		if got != c.want {
			t.Errorf("%q: got %s, want %s", c.freq, got, c.want)
		}
	}
}

// FuzzScore reads tables of any content: no panic, and every row is scored or skipped.
func FuzzScore(f *testing.F) {
	f.Add(header + "1,A,infer,llama.cpp log,Qwen3-32B,size=1 GiB (4 BPW),,0,Q4,,,4096,,x,1,MiB,,,,kv=q8_0/q8_0;kv_MiB=CPU:1;model_MiB=CPU:9,\n")
	f.Add(header + "1,B,train,Megatron-LM CI golden,moe/x,num-layers=3;hidden-size=64;num-attention-heads=8;num-experts=4;moe-layer-freq=([0]*1+[1]*2);multi-latent-attention=true,A100,8,bf16,4,32,1024,TP=2;PP=2;EP=2;VPPL=1,x,2.4,GiB,2.4,,,recompute-granularity=full;recompute-method=block;recompute-num-layers=1,\n")
	f.Add(header + "1,A,train,torchtune,Llama-3.2-3B,,A100,1,bf16,2,,4096,,peak_active,40,GiB,40,,,cumulative:+packed,\n")
	f.Add(header + "1,A,train,Megatron-DeepSpeed(BLOOM),BLOOM-9B,NHIDDEN=1 / NLAYERS=2;NHEADS=3,A100,8,16-bit,4,2048,2048,DP=8;TP=0;PP=99;ZeRO=1,nvidia-smi,40,GB,,,,,\n")
	f.Add(header + "1,A,train,DeepSpeed,7B,,A100,8,bf16,4,,99999999999,ZeRO=9,x,40,GB,,,,offload_fraction=3;lora r=64 all,\n")
	cards := load(f)
	f.Fuzz(func(t *testing.T, table string) {
		rows, err := Read(strings.NewReader(table))
		if err != nil {
			return
		}
		rep := Score(rows, cards)
		for _, p := range rep.Pairs {
			if p.Predicted < 0 || p.Measured <= 0 || p.Low > p.High {
				t.Errorf("row %s: got %v in [%v, %v] for %g", p.Row.ID, p.Predicted, p.Low, p.High, p.Measured)
			}
		}
		if len(rep.Pairs)+len(rep.Skipped) < len(rows) {
			t.Errorf("got %d scored and %d skipped of %d rows", len(rep.Pairs), len(rep.Skipped), len(rows))
		}
	})
}

// TestReadBroken checks that a table which is not one is refused with the line: what a quote swallows would not be missed.
func TestReadBroken(t *testing.T) {
	for text, want := range map[string]string{
		"id,system,value\n1,\"a,2\n2,b,3\n": "line 2", "id,system,value\n1,a\"b,2\n": "line 2", "system,value,Value \n": "twice", "": "empty",
	} {
		if rows, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %d rows, %v; want an error with %q", text, len(rows), err, want)
		}
	}
	if rows, err := Read(strings.NewReader("id,system,value,,\n1,\"a \"\"b\"\"\nc\",2,,\n")); err != nil || len(rows) != 1 {
		t.Errorf("quotes as they should be: got %d rows, %v", len(rows), err)
	}
}
