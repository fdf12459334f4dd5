// Continues prompts greedily with llama.cpp and tells how near each choice was.
//
//	greedy MODEL TOKENS [KV [THREADS [plain]]] <PROMPTS
//
// PROMPTS are separated by zero bytes. KV is f16 (llama.cpp's own choice, the default) or f32; plain leaves weights as the file has them, which chooses
// other kernels. Of each prompt it prints four lines of numbers: its tokens; the new ones, TOKENS or up to the first that ends the text;
// the token that came second in each place; and by how much its logit was less.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "llama.h"

static void fail(const char * what) {
    fprintf(stderr, "greedy: %s\n", what);
    exit(1);
}

static void quiet(ggml_log_level level, const char * text, void *) {
    if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) {
        fputs(text, stderr);
    }
}

template <class T> static void print(const char * format, const std::vector<T> & values) {
    for (size_t i = 0; i < values.size(); i++) {
        if (i > 0) {
            putchar(' ');
        }
        printf(format, values[i]);
    }
    putchar('\n');
}

int main(int argc, char ** argv) {
    if (argc < 3) {
        fail("want MODEL TOKENS [KV [THREADS [plain]]]");
    }
    const int  want    = atoi(argv[2]);
    const bool single  = argc > 3 && strcmp(argv[3], "f32") == 0;
    const int  threads = argc > 4 ? atoi(argv[4]) : 1;

    llama_log_set(quiet, nullptr);
    ggml_backend_load_all();

    llama_model_params mp = llama_model_default_params();
    mp.use_extra_bufts    = argc <= 5 || strcmp(argv[5], "plain") != 0;
    llama_model * model   = llama_model_load_from_file(argv[1], mp);
    if (model == nullptr) {
        fail("cannot load the model");
    }
    const llama_vocab * vocab = llama_model_get_vocab(model);

    llama_context_params cp = llama_context_default_params();
    cp.n_ctx                = 4096;
    cp.n_threads            = threads;
    cp.n_threads_batch      = threads;
    if (single) {
        cp.type_k = GGML_TYPE_F32;
        cp.type_v = GGML_TYPE_F32;
    }
    llama_context * ctx = llama_init_from_model(model, cp);
    if (ctx == nullptr) {
        fail("cannot make a context");
    }

    const std::string all{std::istreambuf_iterator<char>(std::cin), {}};
    for (size_t at = 0; at < all.size();) {
        const std::string text = all.substr(at, all.find('\0', at) - at);
        at += text.size() + 1;

        std::vector<llama_token> prompt(text.size() + 8);
        const int n = llama_tokenize(vocab, text.data(), text.size(), prompt.data(), prompt.size(), true, true);
        if (n < 1) {
            fail("cannot tokenize a prompt");
        }
        prompt.resize(n);

        std::vector<llama_token> tokens, seconds;
        std::vector<float>       gaps;
        llama_memory_clear(llama_get_memory(ctx), true);
        llama_batch batch = llama_batch_get_one(prompt.data(), prompt.size());
        llama_token best  = 0;
        for (int i = 0; i < want; i++) {
            if (llama_decode(ctx, batch) != 0) {
                fail("cannot decode");
            }
            const float * logits = llama_get_logits_ith(ctx, -1);
            best                 = logits[1] > logits[0] ? 1 : 0;
            llama_token second   = 1 - best;
            for (int k = 2; k < llama_vocab_n_tokens(vocab); k++) {
                if (logits[k] > logits[best]) {
                    second = best;
                    best   = k;
                } else if (logits[k] > logits[second]) {
                    second = k;
                }
            }
            tokens.push_back(best);
            seconds.push_back(second);
            gaps.push_back(logits[best] - logits[second]);
            if (llama_vocab_is_eog(vocab, best)) {
                break;
            }
            batch = llama_batch_get_one(&best, 1);
        }
        print("%d", prompt);
        print("%d", tokens);
        print("%d", seconds);
        print("%.4f", gaps);
        fflush(stdout);
    }
    llama_free(ctx);
    llama_model_free(model);
}
