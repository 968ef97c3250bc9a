// Rotary position embedding. A thread turns WIDTH pairs of columns of one head: two accesses of x, two of y.
#include "../vectors.cuh"

// [batch, heads, positions, columns] with neighbouring columns; strides in accesses of WIDTH elements.
template <typename T>
struct Heads {
  T* start;
  int64 batch, head, position;
};

// Queries and keys in one launch: to a thread, the heads of a token are those of q, then those of k.
// The tables are [positions, accesses] of WIDTH angles, contiguous; `accesses` is half a head.
template <typename T, int WIDTH, bool INTERLEAVED>
__global__ void __launch_bounds__(256)
rotate(T* q, int64 q_batch, int64 q_head, int64 q_position, T* k, int64 k_batch, int64 k_head, int64 k_position,
       T* to_q, int64 to_q_batch, int64 to_q_head, int64 to_q_position,
       T* to_k, int64 to_k_batch, int64 to_k_head, int64 to_k_position,
       const T* cos, const T* sin, int64 tokens, int64 positions, int64 q_heads, int64 k_heads, int64 accesses,
       double sign) {
  typedef Vec<T, WIDTH> V;
  const int64 number = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  const int64 heads = q_heads + k_heads;
  if (number >= tokens * heads * accesses) return;
  const int64 at = number % accesses, row = number / accesses;
  const int64 token = row / heads, batch = token / positions, position = token % positions;
  int64 head = row % heads;
  Heads<T> from = {q, q_batch, q_head, q_position}, to = {to_q, to_q_batch, to_q_head, to_q_position};
  if (head >= q_heads) {
    head -= q_heads;
    from = {k, k_batch, k_head, k_position}, to = {to_k, to_k_batch, to_k_head, to_k_position};
  }
  const V* x = reinterpret_cast<const V*>(from.start) + batch * from.batch + head * from.head + position * from.position;
  V* y = reinterpret_cast<V*>(to.start) + batch * to.batch + head * to.head + position * to.position;
  // Interleaved, the columns of WIDTH pairs are two neighbouring accesses; otherwise one in each half.
  const int64 one = INTERLEAVED ? 2 * at : at, other = INTERLEAVED ? 2 * at + 1 : accesses + at;
  const V a = x[one], b = x[other];
  const V c = reinterpret_cast<const V*>(cos)[position * accesses + at];
  const V s = reinterpret_cast<const V*>(sin)[position * accesses + at];
  V first, second;
#pragma unroll
  for (int i = 0; i < WIDTH; i++) {
    const float turn_cos = c[i], turn_sin = s[i] * (float)sign;
    // Pair i: columns 2i and 2i + 1 of both accesses together, or column i of each.
    const int left = 2 * i, right = 2 * i + 1;
    const float u = INTERLEAVED ? (left < WIDTH ? a[left % WIDTH] : b[left % WIDTH]) : a[i];
    const float v = INTERLEAVED ? (right < WIDTH ? a[right % WIDTH] : b[right % WIDTH]) : b[i];
    const float turned_u = u * turn_cos - v * turn_sin, turned_v = v * turn_cos + u * turn_sin;
    if constexpr (INTERLEAVED) {
      (left < WIDTH ? first : second).set(left % WIDTH, turned_u);
      (right < WIDTH ? first : second).set(right % WIDTH, turned_v);
    } else {
      first.set(i, turned_u);
      second.set(i, turned_v);
    }
  }
  __stcs(&y[one].raw, first.raw);
  __stcs(&y[other].raw, second.raw);
}
