// Rotary position embedding. A thread turns WIDTH pairs of columns of HEADS heads of a token by the same angles: two
// accesses of x and two of y for each head.
#include "../vectors.cuh"

// [batch, heads, positions, columns] with neighbouring columns; strides in accesses of WIDTH elements.
template <typename T>
struct Heads {
  T* start;
  int64 batch, head, position;
};

// Most numbers have 32 bits, and a division of these takes a fraction of the time.
__device__ __forceinline__ int64 divide(int64 a, int64 b) {
  return (a | b) >> 32 ? a / b : (unsigned)a / (unsigned)b;
}

// Pair (u, v) of columns of an access each: interleaved, columns 2i and 2i + 1 of both together, else column i of each.
template <bool INTERLEAVED, class V, int WIDTH>
__device__ __forceinline__ void turn(const V& a, const V& b, const float (&cos)[WIDTH], const float (&sin)[WIDTH],
                                     V& first, V& second) {
#pragma unroll
  for (int i = 0; i < WIDTH; i++) {
    const int left = 2 * i, right = 2 * i + 1;
    const float u = INTERLEAVED ? (left < WIDTH ? a : b).unpack(left % WIDTH) : a.unpack(i);
    const float v = INTERLEAVED ? (right < WIDTH ? a : b).unpack(right % WIDTH) : b.unpack(i);
    const float turned_u = u * cos[i] - v * sin[i], turned_v = v * cos[i] + u * sin[i];
    if constexpr (INTERLEAVED) {
      (left < WIDTH ? first : second).set(left % WIDTH, turned_u);
      (right < WIDTH ? first : second).set(right % WIDTH, turned_v);
    } else {
      first.set(i, turned_u);
      second.set(i, turned_v);
    }
  }
}

// Queries and keys in one launch. The tables are [positions, accesses] of WIDTH angles, contiguous; `accesses` is half a
// head. A block takes HEADS heads, of q or of k, of as many tokens as it has threads for. Blocks that follow each other
// take the following tokens, or where `heads_first`, the following heads: what lies next in memory.
template <typename T, int WIDTH, bool INTERLEAVED, int HEADS>
__global__ void __launch_bounds__(256)
rotate(T* q, int64 q_batch, int64 q_head, int64 q_position, T* k, int64 k_batch, int64 k_head, int64 k_position,
       T* to_q, int64 to_q_batch, int64 to_q_head, int64 to_q_position,
       T* to_k, int64 to_k_batch, int64 to_k_head, int64 to_k_position,
       const T* cos, const T* sin, int64 tokens, int64 positions, int64 q_heads, int64 k_heads, int64 accesses,
       double sign, int64 token_blocks, int64 heads_first) {
  typedef Vec<T, WIDTH> V;
  const unsigned q_groups = (q_heads + HEADS - 1) / HEADS, groups = q_groups + (k_heads + HEADS - 1) / HEADS;
  const unsigned across = heads_first ? groups : token_blocks;
  const unsigned major = blockIdx.x / across, minor = blockIdx.x % across;
  const unsigned group = heads_first ? minor : major;
  const int64 number = (int64)(heads_first ? major : minor) * blockDim.x + threadIdx.x;
  const int64 token = divide(number, accesses), at = number - token * accesses;
  if (token >= tokens) return;
  const int64 batch = divide(token, positions), position = token - batch * positions;

  Heads<T> from = {q, q_batch, q_head, q_position}, to = {to_q, to_q_batch, to_q_head, to_q_position};
  int64 head = (int64)group * HEADS, heads = q_heads;
  if (group >= q_groups) {
    from = {k, k_batch, k_head, k_position}, to = {to_k, to_k_batch, to_k_head, to_k_position};
    head = (int64)(group - q_groups) * HEADS, heads = k_heads;
  }
  const int count = min(heads - head, (int64)HEADS);
  // Interleaved, the columns of WIDTH pairs are two neighbouring accesses; otherwise one in each half.
  const int64 one = INTERLEAVED ? 2 * at : at, apart = INTERLEAVED ? 1 : accesses;
  const V* x = reinterpret_cast<const V*>(from.start) + batch * from.batch + head * from.head +
               position * from.position + one;
  V* y = reinterpret_cast<V*>(to.start) + batch * to.batch + head * to.head + position * to.position + one;

  V a[HEADS], b[HEADS];
#pragma unroll
  for (int i = 0; i < HEADS; i++)
    if (i < count) a[i] = x[i * from.head], b[i] = x[i * from.head + apart];
  const V c = reinterpret_cast<const V*>(cos)[number - batch * positions * accesses];
  const V s = reinterpret_cast<const V*>(sin)[number - batch * positions * accesses];
  float turn_cos[WIDTH], turn_sin[WIDTH];
#pragma unroll
  for (int i = 0; i < WIDTH; i++) turn_cos[i] = c.unpack(i), turn_sin[i] = s.unpack(i) * (float)sign;
#pragma unroll
  for (int i = 0; i < HEADS; i++)
    if (i < count) {
      V first, second;
      turn<INTERLEAVED>(a[i], b[i], turn_cos, turn_sin, first, second);
      y[i * to.head] = first, y[i * to.head + apart] = second;
    }
}
