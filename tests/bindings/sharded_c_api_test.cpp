// Ranks that share a vocabulary, through the C interface, beside the call that has all classes.

#include <cmath>
#include <vector>

#include "tests/bindings/c_calls.h"

namespace {

using testing::HasSubstr;

// Two ranks as a bundle for `--shards 2` covers them (runtime_library_test.sh).
constexpr int64_t kRows = 40, kHidden = 8, kClasses = 31;
constexpr int64_t kFirst[] = {0, 16}, kSizes[] = {16, 15};
constexpr int kRanks = 2;

/// Some numbers; the same at each call.
std::vector<float> numbers(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>((i * 37 + 11) % 101) / 50 - 1);
  return values;
}

/// Inputs, and outputs of a call with these classes.
struct Problem {
  std::vector<float> x = numbers(kRows * kHidden), w = numbers(kClasses * kHidden);
  std::vector<int64_t> y;
  std::vector<float> loss, lse, dx, dw;
  Tensor tensor[7];
  tw_linear_cross_entropy_tensors tensors = TW_LINEAR_CROSS_ENTROPY_TENSORS_INIT;

  Problem(int64_t first, int64_t classes) : loss(1), lse(kRows), dx(kRows * kHidden), dw(classes * kHidden) {
    for (int64_t i = 0; i < kRows; ++i)
      y.push_back(i % 7 == 3 ? -100 : i * 11 % kClasses);
    tensors.hidden = tensor[0].set(x.data(), kDLFloat, 32, kRows, kHidden);
    tensors.weight = tensor[1].set(w.data() + first * kHidden, kDLFloat, 32, classes, kHidden);
    tensors.label = tensor[2].set(y.data(), kDLInt, 64, kRows);
    tensors.loss = tensor[3].set(loss.data(), kDLFloat, 32, 1);
    tensors.lse = tensor[4].set(lse.data(), kDLFloat, 32, kRows);
    tensors.d_hidden = tensor[5].set(dx.data(), kDLFloat, 32, kRows, kHidden);
    tensors.d_weight = tensor[6].set(dw.data(), kDLFloat, 32, classes, kHidden);
  }
};

/// One rank.
struct Rank : Problem {
  tw_vocabulary_shard shard;
  tw_sharded_linear_cross_entropy *prepared = nullptr;
  void *workspace = nullptr;
  std::vector<float> stats[2], gathered[2];

  explicit Rank(int rank)
      : Problem(kFirst[rank], kSizes[rank]), shard{sizeof shard, kClasses, kFirst[rank],
                                                   kSizes[0],    rank,     kRanks} {}
  ~Rank() {
    tw_sharded_linear_cross_entropy_free(prepared);
    std::free(workspace);
  }
  int64_t bytes() const { return tw_sharded_linear_cross_entropy_workspace_bytes(prepared); }
  int64_t told() const {
    return tw_sharded_linear_cross_entropy_facts(prepared) *
           tw_sharded_linear_cross_entropy_chunk_rows(prepared);
  }
  void prepare(tw_runtime *runtime, const tw_linear_cross_entropy_options *options) {
    expectOk(call([&](tw_error **e) {
      return tw_sharded_linear_cross_entropy_prepare(runtime, &tensors, options, &shard, TW_PASS_FUSED,
                                                     &prepared, e);
    }));
    workspace = std::aligned_alloc(256, (bytes() + 255) / 256 * 256);
    for (int i = 0; i < 2; ++i)
      stats[i].resize(told()), gathered[i].resize(kRanks * told());
  }
  Outcome run(int32_t part, int64_t chunk = 0, int64_t less = 0) {
    return call([&](tw_error **e) {
      return tw_sharded_linear_cross_entropy_run(prepared, part, chunk, &tensors, stats[chunk % 2].data(),
                                                 gathered[chunk % 2].data(), workspace, bytes() - less,
                                                 nullptr, nullptr, e);
    });
  }
};

class ShardedCApi : public WithRuntime {
protected:
  void stats(int64_t chunk) {
    for (Rank &rank : ranks)
      expectOk(rank.run(TW_SHARD_STATS, chunk));
    for (Rank &to : ranks)
      for (const Rank &from : ranks)
        std::copy(from.stats[chunk % 2].begin(), from.stats[chunk % 2].end(),
                  to.gathered[chunk % 2].begin() + from.shard.rank * from.told());
  }

  Rank ranks[kRanks] = {Rank(0), Rank(1)};
};

TEST_F(ShardedCApi, ComputesWhatACallOfAllClassesDoes) {
  Problem whole(0, kClasses);
  tw_linear_cross_entropy *all = nullptr;
  expectOk(call([&](tw_error **e) {
    return tw_linear_cross_entropy_prepare(runtime, &whole.tensors, nullptr, TW_PASS_FUSED, &all, e);
  }));
  const int64_t bytes = tw_linear_cross_entropy_workspace_bytes(all);
  void *workspace = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  expectOk(call([&](tw_error **e) {
    return tw_linear_cross_entropy_run(all, &whole.tensors, workspace, bytes, nullptr, nullptr, e);
  }));
  tw_linear_cross_entropy_free(all);
  std::free(workspace);

  for (Rank &rank : ranks)
    rank.prepare(runtime, nullptr);
  for (Rank &rank : ranks)
    expectOk(rank.run(TW_SHARD_BEGIN));
  const int64_t chunks = tw_sharded_linear_cross_entropy_chunks(ranks[0].prepared);
  stats(0);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    if (chunk + 1 < chunks) stats(chunk + 1);
    for (const tw_shard_part part : {TW_SHARD_MERGE, TW_SHARD_D_HIDDEN, TW_SHARD_D_WEIGHT})
      for (Rank &rank : ranks)
        expectOk(rank.run(part, chunk));
  }
  for (Rank &rank : ranks)
    expectOk(rank.run(TW_SHARD_FINISH));

  EXPECT_EQ(ranks[0].loss, ranks[1].loss);
  EXPECT_EQ(ranks[0].lse, ranks[1].lse);
  EXPECT_NEAR(ranks[0].loss[0], whole.loss[0], 1e-6);
  for (int64_t i = 0; i < kRows * kHidden; ++i)
    EXPECT_NEAR(ranks[0].dx[i] + ranks[1].dx[i], whole.dx[i], 1e-6);
  for (const Rank &rank : ranks)
    for (int64_t i = 0; i < static_cast<int64_t>(rank.dw.size()); ++i)
      EXPECT_NEAR(rank.dw[i], whole.dw[rank.shard.first_class * kHidden + i], 1e-6);
}

TEST_F(ShardedCApi, RanksPlanAlike) {
  for (Rank &rank : ranks)
    rank.prepare(runtime, nullptr);
  const std::string schedule = tw_sharded_linear_cross_entropy_schedule(ranks[0].prepared);
  EXPECT_EQ(schedule, tw_sharded_linear_cross_entropy_schedule(ranks[1].prepared));
  EXPECT_THAT(schedule, HasSubstr("40x8x16"));
  EXPECT_EQ(tw_sharded_linear_cross_entropy_facts(ranks[0].prepared), 3);
  EXPECT_EQ(tw_sharded_linear_cross_entropy_fits(ranks[0].prepared, &ranks[0].tensors), 1);
  EXPECT_EQ(tw_sharded_linear_cross_entropy_fits(ranks[0].prepared, &ranks[1].tensors), 0);

  tw_linear_cross_entropy_options options = TW_LINEAR_CROSS_ENTROPY_OPTIONS_INIT;
  const std::string configuration = tw_sharded_linear_cross_entropy_configuration(ranks[0].prepared);
  options.configuration = configuration.c_str();
  Rank pinned(1);
  pinned.prepare(runtime, &options);
  EXPECT_EQ(schedule, tw_sharded_linear_cross_entropy_schedule(pinned.prepared));
}

TEST_F(ShardedCApi, LabelsOfNoRankAreErrors) {
  for (Rank &rank : ranks) {
    rank.y[5] = kClasses;
    rank.prepare(runtime, nullptr);
    expectUser(rank.run(TW_SHARD_BEGIN), "label 31");
  }
}

TEST_F(ShardedCApi, MistakesAreNamed) {
  Rank &rank = ranks[0];
  rank.prepare(runtime, nullptr);
  expectUser(rank.run(9), "tw_shard_part");
  expectUser(rank.run(TW_SHARD_STATS, 7), "chunks are numbered");
  expectUser(rank.run(TW_SHARD_BEGIN, 0, 1), "workspace");
  std::vector<float>().swap(rank.stats[0]);
  expectUser(rank.run(TW_SHARD_STATS), "stats");
  tw_sharded_linear_cross_entropy *none = nullptr;
  const auto prepare = [&](const tw_vocabulary_shard *shard, int32_t pass = TW_PASS_FUSED) {
    return call([&](tw_error **e) {
      return tw_sharded_linear_cross_entropy_prepare(runtime, &rank.tensors, nullptr, shard, pass, &none, e);
    });
  };
  expectUser(prepare(nullptr), "shard");
  tw_vocabulary_shard wrong = rank.shard;
  wrong.struct_bytes = 8;
  expectUser(prepare(&wrong), "struct_bytes");
  wrong = rank.shard;
  wrong.first_class = 20;
  expectUser(prepare(&wrong), "among all classes");
  expectUser(prepare(&rank.shard, 4), "tw_pass");
  expectUser(call([&](tw_error **e) {
               return tw_sharded_linear_cross_entropy_run(nullptr, TW_SHARD_BEGIN, 0, &rank.tensors, nullptr,
                                                          nullptr, nullptr, 0, nullptr, nullptr, e);
             }),
             "call");
  EXPECT_EQ(tw_sharded_linear_cross_entropy_chunks(nullptr), 0);
  EXPECT_EQ(std::string(tw_sharded_linear_cross_entropy_schedule(nullptr)), "");
  tw_sharded_linear_cross_entropy_free(nullptr);
}

} // namespace
