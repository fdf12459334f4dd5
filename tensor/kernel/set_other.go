//go:build !amd64 || purego

package kernel

// Sets returns every set this CPU can run; Generic is the first of them.
func Sets() []Set { return []Set{Generic()} }

// AVX2 returns false: these kernels are not in this build.
func AVX2() (Set, bool) { return Set{}, false }

// AVX512 returns false: these kernels are not in this build.
func AVX512() (Set, bool) { return Set{}, false }

// AVX512BF16 returns false: these kernels are not in this build.
func AVX512BF16() (Set, bool) { return Set{}, false }

// AVX512AMX returns false: these kernels are not in this build.
func AVX512AMX() (Set, bool) { return Set{}, false }
