// Instructions of tensor cores, and copies to shared memory that run by themselves: from sm_80 on.
#pragma once

#include "vectors.cuh"

// Copies -------------------------------------------------------------------------------------------------------------

// Copies 16 bytes to shared memory, of which those from `count` on become 0. Both addresses are multiples of 16.
__device__ __forceinline__ void copy_async(void* to, const void* from, int count) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(count)
               : "memory");
}
// The copies that this thread has begun since the last call are a group.
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for this thread's groups, but for the last few. What others copied is there after a barrier.
template <int LAST> __device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(LAST) : "memory");
}

// Fragments ----------------------------------------------------------------------------------------------------------
// A warp holds a matrix of 8 rows of 16 bytes, with a word in each lane: lane 4·r + w has word w of row r.

// Four such matrices from shared memory. Lane 8·i + r gives the address of row r of matrix i.
__device__ __forceinline__ void load_matrices(unsigned (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
// The same, each matrix of 8 × 8 elements of 16 bits transposed.
__device__ __forceinline__ void load_transposed(unsigned (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}

// Products -----------------------------------------------------------------------------------------------------------
// sums += a·b, with a of 16 rows and b of 8 columns. The depth is 32 bytes: 16 elements of 16 bits, or 8 tf32 numbers.
//   a: matrices of rows 0–7 and 8–15 of its first half, then of its second half
//   b: columns of its first half, then of its second half
//   sums: columns 2·w and 2·w + 1 of row r, then of row r + 8

template <typename T> struct TensorCore;

template <> struct TensorCore<__nv_bfloat16> {
  __device__ __forceinline__ static unsigned operand(unsigned word) { return word; }
  __device__ __forceinline__ static void multiply(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
template <> struct TensorCore<__half> {
  __device__ __forceinline__ static unsigned operand(unsigned word) { return word; }
  __device__ __forceinline__ static void multiply(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
// Operands are rounded to tf32: to nearest, ties away from 0.
template <> struct TensorCore<float> {
  __device__ __forceinline__ static unsigned operand(unsigned word) {
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(word)));
    return rounded;
  }
  __device__ __forceinline__ static void multiply(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};
