package main

import (
	"strings"
	"testing"
)

// TestPlanQueue asks for more sequences than a card's cache holds: a server runs some and lets the rest wait, in the text and the document.
func TestPlanQueue(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var d struct {
		Framework string `json:"framework"`
		Plans     []struct {
			Running int     `json:"running_sequences"`
			Most    int     `json:"most_sequences"`
			Tokens  int64   `json:"kv_capacity_tokens"`
			Speed   float64 `json:"tokens_per_second"`
		} `json:"plans"`
	}
	r := document(t, &d, codeDone, strings.Fields("plan llama-3.1-8b --hardware H100 --task serve --precision bf16 --kv-type f16 --concurrency 100 --context 8192")...)
	p := d.Plans[0]
	if d.Framework != "vllm" && d.Framework != "sglang" || p.Running < 40 || p.Running >= 100 || p.Most != p.Running || p.Tokens != int64(p.Most)*8192 || p.Speed < 500 {
		t.Errorf("got %s, %+v", d.Framework, p)
	}
	if !strings.Contains(r.err, "of 100 sequences at once, the rest wait") || strings.Contains(r.err, "layers on the cards") {
		t.Errorf("people are told %s", r.err)
	}
}
