#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/passes/exclusion.hpp"
#include "savings.hpp"

namespace ac_advisor::advise {
namespace {

std::string label_of(const StepConfig& c) {
  std::string label = ac_option(c);
  if (c.memory.scope == AcScope::submodule && c.memory.ac != AcMode::none) label += "/submodule";
  label += " " + loss_option(c) + " " + to_option(c.memory.kernels);
  if (c.layout.world > 1) label += " " + shard_option(c);
  return label + fmt::format(" b{}", c.run.batch);
}

/// More than this a rank is nobody's step, and a chunked loss has an op a chunk.
constexpr std::int64_t most_tokens = std::int64_t{1} << 20;

/// Largest batch whose plan fits: doubling, then halving the interval. Memory grows with batch.
std::int64_t largest_batch(const model::ModelSpec& model, const profile::Profile& at) {
  const auto fits = [&](std::int64_t batch) {
    StepConfig c = at.config;
    c.run.batch = batch;
    return passes::find_exclusion(model, c) == nullptr && plan(model, c, false).fit.fits;
  };
  std::int64_t low = at.fit.fits ? at.config.run.batch : 0, high = 0;
  if (at.fit.fits) {
    for (high = low * 2; high * at.config.run.seq <= most_tokens && fits(high); high *= 2)
      low = high;
  } else {
    high = at.config.run.batch;
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

/// Runs `work(i)` for each i on a few threads; the first exception is rethrown.
template <typename Work>
void parallel(std::size_t count, unsigned threads, const Work& work) {
  const unsigned n = std::max(1U, std::min<unsigned>(threads, static_cast<unsigned>(count)));
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        return;
      }
    }
  };
  std::vector<std::thread> pool;
  for (unsigned t = 1; t < n; ++t) pool.emplace_back(run);
  run();
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
}

void mark_pareto(std::vector<Row>& rows) {
  for (Row& a : rows)
    a.pareto = std::none_of(rows.begin(), rows.end(), [&](const Row& b) {
      const auto &ma = a.profile.memory, &mb = b.profile.memory;
      const double ta = a.profile.time.tokens_per_second, tb = b.profile.time.tokens_per_second;
      return mb.peak_allocated <= ma.peak_allocated && tb >= ta &&
             (mb.peak_allocated < ma.peak_allocated || tb > ta);
    });
}

void explain_rows(std::vector<Row>& rows) {
  for (Row& row : rows) {
    const profile::Fit& fit = row.profile.fit;
    if (!row.fits) {
      row.why = fmt::format("needs {:.1f} GiB more than the device has",
                            static_cast<double>(fit.required - fit.usable) / (1 << 30));
    } else if (row.rank == 1) {
      row.why = "fastest that fits";
    } else if (row.pareto) {
      row.why = "no faster row uses less memory";
    } else {
      const double behind =
          100.0 *
          (rows.front().profile.time.tokens_per_second / row.profile.time.tokens_per_second - 1.0);
      row.why = fmt::format("{:.1f} % slower than the first", behind);
    }
  }
}

std::string recommend(const std::vector<Row>& rows) {
  if (rows.empty()) return "nothing to recommend: no combination is valid";
  if (rows.front().rank != 1)
    return fmt::format("nothing fits; the nearest, {}, {}", rows.front().label, rows.front().why);
  const Row& best = rows.front();
  const double usable = static_cast<double>(best.profile.fit.usable);
  std::string text = fmt::format(
      "use {}: peak {:.2f} GiB ({:.0f} % of the device with its context and margin), {} "
      "{:.0f} tokens/s, the fastest of those that fit",
      best.label, static_cast<double>(best.profile.memory.peak_allocated) / (1 << 30),
      100.0 * static_cast<double>(best.profile.fit.required) / usable,
      best.profile.time.basis == profile::TimeBasis::estimate ? "an estimated" : "a calibrated",
      best.profile.time.tokens_per_second);
  return text;
}

}  // namespace

Sweep sweep(const model::ModelSpec& model, const StepConfig& base, const Space& space) {
  Sweep result;
  result.model = model;
  result.base = base;
  const std::vector<StepConfig> list = combinations(model, base, space);
  result.rows.resize(list.size());
  result.configurations = list.size();
  const unsigned threads =
      space.threads > 0 ? space.threads : std::max(1U, std::thread::hardware_concurrency());
  // The largest batch is worth its simulations only for rows that a table shows.
  const std::size_t shown = std::min<std::size_t>(list.size(), 20);
  std::atomic<std::size_t> done{0};
  const auto tell = [&] {
    const std::size_t now = ++done;
    if (space.progress) space.progress(now, list.size() + shown);
  };
  parallel(list.size(), threads, [&](std::size_t i) {
    Row& row = result.rows[i];
    row.profile = plan(model, list[i], false);
    row.fits = row.profile.fit.fits;
    row.label = label_of(list[i]);
    tell();
  });
  mark_pareto(result.rows);
  std::stable_sort(result.rows.begin(), result.rows.end(), [](const Row& a, const Row& b) {
    if (a.fits != b.fits) return a.fits;
    if (!a.fits) return a.profile.fit.required < b.profile.fit.required;
    return a.profile.time.tokens_per_second > b.profile.time.tokens_per_second;
  });
  int rank = 0;
  for (Row& row : result.rows)
    if (row.fits) row.rank = ++rank;
  explain_rows(result.rows);
  parallel(shown, threads, [&](std::size_t i) {
    result.rows[i].largest_batch = largest_batch(model, result.rows[i].profile);
    tell();
  });
  result.recommended = !result.rows.empty() && result.rows.front().fits ? 0 : result.rows.size();
  result.recommendation = recommend(result.rows);
  result.savings = savings_table(model, base);
  return result;
}

}  // namespace ac_advisor::advise
