// The float32 multiply-adds that THREADS threads make in registers alone: what no product of matrices is above. For each line of input it
// runs for a second and prints GFLOP/s.
//
//   cc -O2 -march=native -pthread -o fma_peak fma_peak.c; fma_peak THREADS
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef __AVX512F__
typedef __m512 vec;
#define LANES 16
#define SPLAT _mm512_set1_ps
#define FMA _mm512_fmadd_ps
#else
typedef __m256 vec;
#define LANES 8
#define SPLAT _mm256_set1_ps
#define FMA _mm256_fmadd_ps
#endif
#define CHAINS 12

static volatile float sink;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void *turn(void *out) {
	// One chain a register; the loops that have them must be unrolled.
	vec x = SPLAT(0.5f), y = SPLAT(0.25f), s[CHAINS];
#pragma GCC unroll 12
	for (int i = 0; i < CHAINS; i++) s[i] = SPLAT((float)i);
	double flops = 0, begin = now(), end;
	do {
		for (int n = 0; n < 1 << 16; n++) {
#pragma GCC unroll 12
			for (int i = 0; i < CHAINS; i++) {
				s[i] = FMA(s[i], x, y);
				__asm__ volatile("" : "+v"(s[i]));
			}
		}
		flops += 2.0 * LANES * CHAINS * (1 << 16);
		end = now();
	} while (end < begin + 1);
#pragma GCC unroll 12
	for (int i = 1; i < CHAINS; i++) s[0] = FMA(s[i], x, s[0]);
	float first[LANES];
	__builtin_memcpy(first, &s[0], sizeof first);
	sink = first[0];
	*(double *)out = flops / (end - begin) / 1e9;
	return NULL;
}

int main(int argc, char **argv) {
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	if (threads < 1 || threads > 1024) return 2;
	for (char line[64]; fgets(line, sizeof line, stdin);) {
		pthread_t t[1024];
		double rate[1024], sum = 0;
		for (int i = 0; i < threads; i++) pthread_create(&t[i], NULL, turn, &rate[i]);
		for (int i = 0; i < threads; i++) pthread_join(t[i], NULL), sum += rate[i];
		printf("%.1f\n", sum);
		fflush(stdout);
	}
}
