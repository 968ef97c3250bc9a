// Instructions of Hopper GPUs (sm_90a) for products of matrices: the copy engine, products of a warpgroup, barriers.
//
// A tile lies in shared memory as the copy engine writes blocks of 128-byte rows with 128-byte swizzle: row r begins at
// byte 128 r of the block, and its piece i of 16 bytes is where piece i ^ (r % 8) would be. Blocks begin at multiples of
// 1024 bytes. A row has 64 elements of 16 bits. An operand whose rows run along k (BY_K) takes rows m or n; one whose
// rows run along m or n takes rows k, 64 of m or n in each block.
#pragma once

#include "../../src/kernellab/ops/ptx.cuh"

// The types of elements: tags, which no header is needed for.
struct bfloat16;
struct float16;

constexpr int ROW = 64, ROW_BYTES = 128, GROUP_BYTES = 8 * ROW_BYTES;  // a row, and 8 of them, in which pieces permute

// What the driver makes of a tensor.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

__device__ __forceinline__ unsigned shared_address(const void* place) { return __cvta_generic_to_shared(place); }

// The copy engine ------------------------------------------------------------------------------------------------

__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}

// Copies a block of the tensor to shared memory, from element x of its last dim on, and y, z, w of those before. Its
// bytes, also those outside the tensor, count at the barrier.
__device__ __forceinline__ void load_block(unsigned to, const TensorMap& map, int x, int y, SharedBarrier* barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void load_block(unsigned to, const TensorMap& map, int x, int y, int z, int w,
                                           SharedBarrier* barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4, %5}], [%6];"
               :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(shared_address(barrier)) : "memory");
}
// The same to all blocks of the cluster whose bits are in the mask: to the same place, counted at the same barrier of each.
__device__ __forceinline__ void load_block_for(unsigned short blocks, unsigned to, const TensorMap& map, int x, int y,
                                               SharedBarrier* barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(to), "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier)), "h"(blocks) : "memory");
}

// Copies a block from shared memory to the tensor; what is outside the tensor is not written.
__device__ __forceinline__ void store_block(const TensorMap& map, unsigned from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
               :: "l"(&map), "r"(x), "r"(y), "r"(from) : "memory");
}
__device__ __forceinline__ void store_block(const TensorMap& map, unsigned from, int x, int y, int z, int w) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
               :: "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(from) : "memory");
}
// Adds the floats of a block in shared memory to those of the tensor.
__device__ __forceinline__ void add_block(const TensorMap& map, unsigned from, int x, int y, int z, int w) {
  asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
               :: "l"(&map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(from) : "memory");
}
// The stores and additions of a thread form groups. All but the last N groups have read shared memory, or are in memory, after a wait.
__device__ __forceinline__ void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void stores_have_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(N) : "memory");
}
template <int N>
__device__ __forceinline__ void stores_are_done() {
  asm volatile("cp.async.bulk.wait_group %0;" :: "n"(N) : "memory");
}

// What this thread wrote to shared memory is seen by the copy engine and the tensor cores after the next barrier.
__device__ __forceinline__ void publish_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Products of a warpgroup: 128 threads, of which the first is a multiple of 128 ------------------------------------

// Where an operand is. `leading`: for rows along k unused, else the bytes from a block to the next. `stride`: the bytes
// from 8 rows to the next.
__device__ __forceinline__ unsigned long long operand(unsigned address, unsigned leading = 16,
                                                      unsigned stride = GROUP_BYTES) {
  const unsigned low = (address & 0x3ffff) >> 4 | leading >> 4 << 16, high = stride >> 4 | 1u << 30;
  return (unsigned long long)high << 32 | low;
}

// The operand so many bytes further.
__device__ __forceinline__ unsigned long long further(unsigned long long operand, unsigned bytes) {
  return operand + (bytes >> 4);
}

// Registers that were written are seen by the products that follow.
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// All but the last N groups are computed. Until then neither their registers nor their operands may be touched.
template <int N>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}

// The compiler moves no use of these registers before this place: call it after the wait for their products.
template <int REGISTERS>
__device__ __forceinline__ void settle(float (&sum)[REGISTERS]) {
#pragma unroll
  for (int i = 0; i < REGISTERS; i++) asm volatile("" : "+f"(sum[i]) :: "memory");
}

// A number that is never -1 is computed before what follows. The assembler (13.0) moves a wait for products to the front
// of its basic block, and what was to be computed meanwhile behind it; this ends the block.
__device__ __forceinline__ void compute_before(float number) {
  if (number == -1.0f) asm volatile("trap;");
}

// sum = a·b, or sum += a·b: [64, 16]·[16, N] for a sum of N/2 registers. Of warp w of the warpgroup, lane l has in
// registers 4j + 2h + i the element of row 16w + 8h + l/4 and column 8j + 2(l%4) + i. `A_BY_K`, `B_BY_K`: see above.
template <class T, bool A_BY_K, bool B_BY_K, int REGISTERS>
__device__ __forceinline__ void product(float (&sum)[REGISTERS], unsigned long long a, unsigned long long b, bool add);
// The same with a in registers: those of a sum of 16 columns, two elements packed in each: rows l/4 and l/4 + 8 of
// columns 2(l%4), then the same of columns 8 + 2(l%4).
template <class T, bool B_BY_K, int REGISTERS>
__device__ __forceinline__ void product(float (&sum)[REGISTERS], const unsigned (&a)[4], unsigned long long b, bool add);

#define OUT_8(i) \
  "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]), \
      "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define OUT_32() OUT_8(0), OUT_8(8), OUT_8(16), OUT_8(24)
#define OUT_16() OUT_8(0), OUT_8(8)
#define OUT_40() OUT_32(), OUT_8(32)
#define OUT_64() OUT_40(), OUT_8(40), OUT_8(48), OUT_8(56)
#define OUT_80() OUT_64(), OUT_8(64), OUT_8(72)
#define OUT_88() OUT_80(), OUT_8(80)
#define OUT_96() OUT_88(), OUT_8(88)
#define OUT_128() OUT_96(), OUT_8(96), OUT_8(104), OUT_8(112), OUT_8(120)

#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_16 NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_32 \
  NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_40 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NAMES_64 \
  NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, " \
           "%60, %61, %62, %63"
#define NAMES_80 \
  NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define NAMES_88 NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define NAMES_96 NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define NAMES_128 \
  NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, " \
           "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// PTX says 1 for an operand whose rows do not run along k. P, A, B, …: the numbers of the operands after the sum's.
#define PRODUCT_IN_SHARED(COLUMNS, TYPE, NAMES, OUT, A, B, ADD, A_FLAG, B_FLAG) \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\n" \
               "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32." TYPE "." TYPE " {" NAMES "}, " A ", " B \
               ", add, 1, 1, " A_FLAG ", " B_FLAG ";\n}" \
               : OUT() : "l"(a), "l"(b), "r"((int)add), "n"((int)!A_BY_K), "n"((int)!B_BY_K))
#define PRODUCT_IN_REGISTERS(COLUMNS, TYPE, NAMES, OUT, A0, A1, A2, A3, B, ADD, B_FLAG) \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\n" \
               "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32." TYPE "." TYPE " {" NAMES "}, {" A0 ", " A1 ", " A2 \
               ", " A3 "}, " B ", add, 1, 1, " B_FLAG ";\n}" \
               : OUT() : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add), "n"((int)!B_BY_K))

template <class T>
constexpr bool IS_BFLOAT16 = false;
template <>
constexpr bool IS_BFLOAT16<bfloat16> = true;

#define FOR_BOTH_TYPES(PRODUCT, COLUMNS, ...) \
  if constexpr (IS_BFLOAT16<T>) \
    PRODUCT(COLUMNS, "bf16", __VA_ARGS__); \
  else \
    PRODUCT(COLUMNS, "f16", __VA_ARGS__)

template <class T, bool A_BY_K, bool B_BY_K, int REGISTERS>
__device__ __forceinline__ void product(float (&sum)[REGISTERS], unsigned long long a, unsigned long long b, bool add) {
  if constexpr (REGISTERS == 16) {
    FOR_BOTH_TYPES(PRODUCT_IN_SHARED, "32", NAMES_16, OUT_16, "%16", "%17", "%18", "%19", "%20");
  } else if constexpr (REGISTERS == 32) {
    FOR_BOTH_TYPES(PRODUCT_IN_SHARED, "64", NAMES_32, OUT_32, "%32", "%33", "%34", "%35", "%36");
  } else if constexpr (REGISTERS == 40) {
    FOR_BOTH_TYPES(PRODUCT_IN_SHARED, "80", NAMES_40, OUT_40, "%40", "%41", "%42", "%43", "%44");
  } else if constexpr (REGISTERS == 64) {
    FOR_BOTH_TYPES(PRODUCT_IN_SHARED, "128", NAMES_64, OUT_64, "%64", "%65", "%66", "%67", "%68");
  } else if constexpr (REGISTERS == 80) {
    FOR_BOTH_TYPES(PRODUCT_IN_SHARED, "160", NAMES_80, OUT_80, "%80", "%81", "%82", "%83", "%84");
  } else if constexpr (REGISTERS == 88) {
    FOR_BOTH_TYPES(PRODUCT_IN_SHARED, "176", NAMES_88, OUT_88, "%88", "%89", "%90", "%91", "%92");
  } else if constexpr (REGISTERS == 96) {
    FOR_BOTH_TYPES(PRODUCT_IN_SHARED, "192", NAMES_96, OUT_96, "%96", "%97", "%98", "%99", "%100");
  } else {
    static_assert(REGISTERS == 128);
    FOR_BOTH_TYPES(PRODUCT_IN_SHARED, "256", NAMES_128, OUT_128, "%128", "%129", "%130", "%131", "%132");
  }
}

template <class T, bool B_BY_K, int REGISTERS>
__device__ __forceinline__ void product(float (&sum)[REGISTERS], const unsigned (&a)[4], unsigned long long b, bool add) {
  if constexpr (REGISTERS == 32) {
    FOR_BOTH_TYPES(PRODUCT_IN_REGISTERS, "64", NAMES_32, OUT_32, "%32", "%33", "%34", "%35", "%36", "%37", "%38");
  } else {
    static_assert(REGISTERS == 64);
    FOR_BOTH_TYPES(PRODUCT_IN_REGISTERS, "128", NAMES_64, OUT_64, "%64", "%65", "%66", "%67", "%68", "%69", "%70");
  }
}

// Registers, shared memory and barriers ----------------------------------------------------------------------------

// The logarithm to base 2 in one instruction (absolute error 2^-22).
__device__ __forceinline__ float log2_fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two numbers rounded to 16 bits each, the first in the low half.
template <class T>
__device__ __forceinline__ unsigned pack(float low, float high) {
  unsigned both;
  if constexpr (IS_BFLOAT16<T>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  }
  return both;
}

// A number of 16 bits, which are the low ones.
template <class T>
__device__ __forceinline__ float widen(unsigned bits) {
  if constexpr (IS_BFLOAT16<T>) return __uint_as_float(bits << 16);
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"((unsigned short)bits));
  return wide;
}

// A warp writes four 8×8 matrices of 16-bit elements. Lane l names the place of row l%8 of matrix l/8, 16 bytes; of each
// matrix it has the elements of row l/4 and columns 2(l%4) and the next.
__device__ __forceinline__ void store_matrices(unsigned row, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(row), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

__device__ __forceinline__ void store_shared(unsigned address, float a, float b) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" :: "r"(address), "f"(a), "f"(b) : "memory");
}
__device__ __forceinline__ float2 load_shared(unsigned address) {
  float2 two;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(two.x), "=f"(two.y) : "r"(address) : "memory");
  return two;
}
// As copy_to_shared of ptx.cuh.
__device__ __forceinline__ void load_bytes(unsigned to, const void* from, unsigned bytes, SharedBarrier* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// Where piece `piece` of 16 bytes of row `row` of a block is.
__device__ __forceinline__ unsigned swizzled(unsigned block, int row, int piece) {
  return block + row * ROW_BYTES + ((piece ^ (row % 8)) << 4);
}

// A number that is the same in all threads of a warp, which the compiler then knows.
__device__ __forceinline__ int uniform(int value) { return __shfl_sync(0xffffffff, value, 0); }

// The registers of a warpgroup's threads. Every warp of it says the same.
template <int N>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N));
}
template <int N>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N));
}

// Barriers of some of a block's threads, whole warps, by number: 0 is that of __syncthreads().
__device__ __forceinline__ void meet(int number, int threads) {
  asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void let_pass(int number, int threads) {  // without waiting
  asm volatile("bar.arrive %0, %1;" :: "r"(number), "r"(threads) : "memory");
}

// Arrives at the same barrier of another block of the cluster, after which it may overwrite what was read here.
__device__ __forceinline__ void barrier_arrive_in(unsigned block, SharedBarrier* barrier) {
  asm volatile("{\n.reg .b32 there;\n"
               "mapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
               :: "r"(shared_address(barrier)), "r"(block) : "memory");
}
