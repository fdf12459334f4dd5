// Continues prompts greedily with llama.cpp and tells how near each choice was.
//
//	greedy MODEL TOKENS THREADS plain|repacked[,half|,narrow][,single][,alike] [FORCED] <PROMPTS
//
// PROMPTS are separated by zero bytes. Keys and values are f32, and attention is not fused, which would round some of them: nothing is narrower than the
// weights make it. plain leaves weights as the file has them, which chooses other kernels than repacked. half keeps keys and values in f16 and leaves attention
// to llama.cpp, its defaults; narrow keeps them in q8_0, where attention must be fused; single takes the prompt token by token, not at once. Of each prompt
// it prints four lines of numbers: its tokens; TOKENS new ones, past the end of the text too; the token that came second in each place; and by how much its
// logit was less.
//
// FORCED is a file with two lines of TOKENS tokens for each prompt: those that are taken in the place of the likeliest ones, and others. Then the fourth
// line is by how much the others' logits are less than theirs. With alike they are what is hoped for, not forced: a prompt ends behind the first that is
// another.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>
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

static std::vector<llama_token> read(std::istream & in, int n) {
    std::vector<llama_token> tokens(n);
    for (llama_token & t : tokens) {
        if (!(in >> t)) {
            fail("FORCED has too few tokens");
        }
    }
    return tokens;
}

int main(int argc, char ** argv) {
    if (argc < 5) {
        fail("want MODEL TOKENS THREADS plain|repacked[,half|,narrow][,single][,alike] [FORCED]");
    }
    std::set<std::string> how;
    std::istringstream    words(argv[4]);
    for (std::string word; std::getline(words, word, ',');) {
        how.insert(word);
    }
    const bool alike = how.count("alike") > 0;
    const bool force = argc > 5 && !alike;
    const int     want    = atoi(argv[2]);
    const int     threads = atoi(argv[3]);
    std::ifstream given(argc > 5 ? argv[5] : "/dev/null");

    llama_log_set(quiet, nullptr);
    ggml_backend_load_all();

    llama_model_params mp = llama_model_default_params();
    mp.use_extra_bufts    = how.count("plain") == 0;
    llama_model * model   = llama_model_load_from_file(argv[1], mp);
    if (model == nullptr) {
        fail("cannot load the model");
    }
    const llama_vocab * vocab = llama_model_get_vocab(model);

    llama_context_params cp = llama_context_default_params();
    cp.n_ctx                = 4096;
    cp.n_threads            = threads;
    cp.n_threads_batch      = threads;
    if (how.count("narrow") > 0) {
        cp.type_k          = GGML_TYPE_Q8_0;
        cp.type_v          = GGML_TYPE_Q8_0;
        cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    } else if (how.count("half") == 0) {
        cp.type_k          = GGML_TYPE_F32;
        cp.type_v          = GGML_TYPE_F32;
        cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
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

        std::vector<llama_token> tokens, seconds, forced, others;
        std::vector<float>       gaps;
        if (argc > 5) {
            forced = read(given, want);
            others = read(given, want);
        }
        llama_memory_clear(llama_get_memory(ctx), true);
        const int first = how.count("single") > 0 ? n - 1 : 0; // those before it are decoded one by one
        for (int i = 0; i < first; i++) {
            if (llama_decode(ctx, llama_batch_get_one(&prompt[i], 1)) != 0) {
                fail("cannot decode");
            }
        }
        llama_batch batch = llama_batch_get_one(prompt.data() + first, n - first);
        llama_token next  = 0;
        for (int i = 0; i < want; i++) {
            if (llama_decode(ctx, batch) != 0) {
                fail("cannot decode");
            }
            const float * logits = llama_get_logits_ith(ctx, -1);
            llama_token   best   = logits[1] > logits[0] ? 1 : 0;
            llama_token   second = 1 - best;
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
            next = force ? forced[i] : best;
            gaps.push_back(logits[next] - logits[force ? others[i] : second]);
            if (alike && best != forced[i]) {
                break;
            }
            batch = llama_batch_get_one(&next, 1);
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
