#include "matmul_time.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ac_advisor::simulate {
namespace {

struct Tile {
  double m = 0, n = 0, share = 1;
};

/// Parts of K that cuBLAS tries; each part is at least this deep.
constexpr int splits[] = {1, 2, 3, 4, 6, 8, 12, 16};
constexpr double least_part = 512;

}  // namespace

double matmul_seconds(const MatmulShape& product, const Device& d, double peak,
                      double multiprocessors) {
  const double rate = peak * d.matmul_asymptote;  // of all multiprocessors
  if (d.sm_count <= 0)
    return 2.0 * product.rows * product.columns * (product.depth + d.matmul_k_half) / rate;
  const double sms = static_cast<double>(d.sm_count);
  const Tile tiles[] = {
      {d.matmul_tile_m, d.matmul_tile_n, 1.0},
      {d.matmul_tile_m / 2, d.matmul_tile_n, d.matmul_half_tile},
      {d.matmul_tile_m / 2, d.matmul_tile_n / 2, d.matmul_half_tile * d.matmul_half_tile}};
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : tiles) {
    if (tile.m < 64 && &tile != tiles) break;
    const double count = std::ceil(product.rows / tile.m) * std::ceil(product.columns / tile.n);
    for (const int parts : splits) {
      const double depth = product.depth / parts;
      if (parts > 1 && depth < least_part) break;
      const double waves = std::ceil(count * parts / multiprocessors);
      const double one = 2.0 * tile.m * tile.n * (depth + d.matmul_k_half) * sms;
      double seconds = waves * one / (rate * tile.share);
      // The parts' fp32 sums are written, read and added.
      if (parts > 1)
        seconds +=
            8.0 * parts * product.rows * product.columns / (d.bandwidth * d.pointwise_bandwidth);
      best = std::min(best, seconds);
      if (waves > 4) break;  // the last wave's loss is small: no need to cut K
    }
  }
  return best;
}

}  // namespace ac_advisor::simulate
