// How problems are cut up for an H200, where large ones of bf16 are to run well without having been tuned.

#include "kernels/lce/tiling.h"
#include "tests/kernels/planned_problems.h"
#include "tests/support/fake_device.h"

namespace tilewright::lce {
namespace {

using test::h200;

Request hopperProblem(int64_t rows, int64_t hidden, int64_t classes) {
  Request p = problem(rows, hidden, classes, ElementType::bf16);
  p.aligned = p.tensorCores = true;
  return p;
}

TEST(PlanForHopper, ProductsTakeWarpsWithRoles) {
  const Request p = hopperProblem(16384, 4096, 128256);
  const Config config = *plan(p, Variant::automatic, 0, h200());
  EXPECT_EQ(config.forward.str(), "256x192/0 cooperative, 3 stages, raster 6, cluster 2");
  EXPECT_EQ(config.dHidden.str(), "256x192/0 cooperative, 3 stages, raster 12, cluster 2");
  EXPECT_EQ(config.dWeight.str(), "192x256/0 cooperative, 3 stages, raster 2, cluster 2");
  for (const ProductKind kind : {ProductKind::forward, ProductKind::dHidden, ProductKind::dWeight})
    EXPECT_LE(sharedBytesOf(chunked(p), kind, config[kind]), h200().sharedBytes);
}

// X is read once where its rows of tiles stay in the second-level cache; W is then read once for each 12 of
// them. dX's strips are long, so a wave of 132 tiles is about square.
TEST(PlanForHopper, RastersReadTheFewestBytes) {
  const auto raster = [](const Block &block, const ProductShape &shape, int cluster, bool stored = true) {
    Product product; // 0 CTAs of a cluster: without roles
    product.block = block, product.clusterCtas = cluster;
    product.roles = cluster ? Schedule::WarpRoles::cooperative : product.roles;
    return chooseRaster(product, shape, 2, stored, h200());
  };
  EXPECT_EQ(raster({128, 192}, {16384, 128256, 4096}, 1), 12);
  EXPECT_EQ(raster({128, 192}, {16384, 128256, 4096}, 1, false), 22);
  EXPECT_EQ(raster({128, 192}, {16384, 131072, 2048}, 1), 33);
  EXPECT_EQ(raster({256, 192}, {16384, 4096, 128256}, 1), 12);
  EXPECT_EQ(raster({128, 192}, {128256, 4096, 16384}, 1), 12);
  EXPECT_EQ(raster({128, 192}, {100, 100, 64}, 1), 1);
  // All rows of a chunk, whose 16 MiB stay in the cache; twice as many do not.
  EXPECT_EQ(raster({128, 192}, {2048, 128256, 4096}, 1), 16);
  EXPECT_EQ(raster({128, 192}, {4096, 128256, 4096}, 1), 11);
  // Pairs: 12 rows of all 11 pairs of columns, which are two waves; 11 rows of 6 pairs; a pair of rows of all
  // 16 columns, of which a wave has four.
  EXPECT_EQ(raster({256, 192}, {16384, 4096, 128256}, 2), 12);
  EXPECT_EQ(raster({256, 192}, {16384, 128256, 4096}, 2, false), 11);
  EXPECT_EQ(raster({256, 192}, {4096, 128256, 4096}, 2, false), 16) << "all rows: W is read once";
  EXPECT_EQ(raster({192, 256}, {128256, 4096, 16384}, 2), 2);
  EXPECT_EQ(raster({192, 256}, {100, 4096, 128256}, 2), 2) << "a pair below one another is two rows";
  // Rows of a few tiles, of which a wave has whole ones in any raster: neighbours share rows in short ones.
  EXPECT_EQ(raster({128, 192}, {49152, 576, 32768}, 1), 1);
  EXPECT_EQ(raster({256, 192}, {32768, 576, 49152}, 1), 1);
  EXPECT_EQ(raster({256, 192}, {32768, 768, 50257}, 2), 11);
  EXPECT_EQ(raster({192, 256}, {50257, 768, 32768}, 2), 2);
  // Portable code: 264 programs at once.
  EXPECT_EQ(raster({128, 128}, {8192, 4096, 128256}, 0), 22);
}

std::string hiddenProduct(int64_t rows, int64_t hidden, int64_t classes) {
  const Config config = *plan(hopperProblem(rows, hidden, classes), Variant::automatic, 0, h200());
  const int64_t tailRows = config.hasTail() ? config.tailRows() : 0;
  return config.dHidden.block.str() + " " + std::to_string(config.tail.begin) + "+" +
         std::to_string(tailRows) + "/" + std::to_string(config.tail.parts);
}

// Pairs of tiles for 66 pairs of multiprocessors: 22 of each 64 rows' 192 columns are 11 pairs, of which 60
// strips are ten rounds and the last four, in thirds, two thirds of one.
TEST(PlanForHopper, PartsOfTheClassesFillTheLastRound) {
  EXPECT_EQ(hiddenProduct(16384, 4096, 128256), "256x192 15360+1024/3");
  EXPECT_EQ(hiddenProduct(4096, 4096, 128256), "256x192 3072+1024/3");
  EXPECT_EQ(hiddenProduct(8192, 2304, 256000), "256x192 0+0/1") << "the last round is nearly full";
  EXPECT_EQ(hiddenProduct(16384, 2048, 131072), "192x256 15744+768/4") << "11 tiles of 192 are no pairs";
}

TEST(PlanForHopper, FewRowsAreNothingButParts) {
  EXPECT_EQ(hiddenProduct(256, 4096, 128256), "256x192 0+256/6");
  EXPECT_EQ(hiddenProduct(256, 1024, 32768), "128x128 0+256/8") << "16 tiles";
}

// Of large tiles, which have three stages.
TEST(PlanForHopper, AStripOfAllRowsTakesTilesOfFourStagesWhereLargeOnesSaveLittle) {
  EXPECT_EQ(hiddenProduct(256, 2048, 128256), "256x128 0+256/8");
  EXPECT_EQ(hiddenProduct(512, 2048, 128256), "256x192 0+512/6") << "two strips";
  EXPECT_EQ(hiddenProduct(256, 8192, 128256), "256x192 0+256/3");
}

TEST(PlanForHopper, RowsOfHalfATileTakeSuchTiles) {
  EXPECT_EQ(hiddenProduct(64, 2048, 50304), "64x256 0+64/16") << "8 tiles";
  const auto logits = [](int64_t rows) {
    return plan(hopperProblem(rows, 2048, 50304), Variant::automatic, 0, h200())->forward.str();
  };
  EXPECT_EQ(logits(64), "64x192/0 pingPong, 6 stages, raster 1, cluster 1");
  EXPECT_EQ(logits(65), "128x192/0 pingPong, 4 stages, raster 1, cluster 1");
}

// Of logits that are not stored.
TEST(PlanForHopper, LargeTilesForADeepLossAlone) {
  const auto tiles = [](int64_t rows, int64_t hidden, ElementType element) {
    lce::Request request = hopperProblem(rows, hidden, 50304);
    request.dHidden = request.dWeight = {};
    request.element = element, request.tf32 = element == ElementType::f32;
    return plan(request, Variant::automatic, 0, h200())->forward.block.str();
  };
  EXPECT_EQ(tiles(2048, 2048, ElementType::bf16), "128x192");
  EXPECT_EQ(tiles(2048, 2304, ElementType::bf16), "256x192");
  EXPECT_EQ(tiles(2048, 2048, ElementType::f32), "256x192") << "each number takes longer";
}

// Tiles that share little give each multiprocessor one where the second-level cache holds the operands.
TEST(PlanForHopper, SmallOperandsTakeSmallTiles) {
  EXPECT_EQ(hiddenProduct(1024, 2048, 8192), "128x128 0+0/1") << "128 tiles, not 96 of 128x192";
  EXPECT_EQ(hiddenProduct(300, 64, 1000), "128x128 0+0/1") << "parts are not worth a launch";
  EXPECT_EQ(hiddenProduct(512, 4096, 32000), "256x192 0+512/3") << "W has 250 MiB";
}

TEST(PlanForHopper, PartsTakeNoMemoryThatIsNotThere) {
  Request p = hopperProblem(16384, 4096, 128256);
  Config config = *plan(p, Variant::automatic, 0, h200());
  const int64_t bytes = bytesOf(p, config);
  ASSERT_GT(config.tail.parts, 1);
  config.tail = {};
  EXPECT_EQ(bytesOf(p, config), bytes) << "u is made in their place";
}

// A shallow dW would wait for the stores of large tiles; several chunks' dW is added up, which takes
// registers.
TEST(PlanForHopper, LargeTilesForADeepWeightGradientOfOneChunk) {
  const auto weightOf = [](int64_t rows, int64_t limit) {
    return plan(hopperProblem(rows, 4096, 128256), Variant::automatic, limit, h200())->dWeight;
  };
  EXPECT_EQ(weightOf(16384, 0).block.str(), "192x256");
  EXPECT_EQ(weightOf(4096, 0).roles, Schedule::WarpRoles::pingPong);
  EXPECT_EQ(weightOf(32768, int64_t(7) << 30).roles, Schedule::WarpRoles::pingPong);
}

// From a depth on that is the chip's.
TEST(PlanForHopper, AnH200SharesTilesOfDeepProducts) {
  DeviceInfo h100 = h200();
  h100.name = "NVIDIA H100 80GB HBM3";
  const auto configOf = [](int64_t rows, int64_t hidden, int64_t classes, const DeviceInfo &device) {
    return *plan(hopperProblem(rows, hidden, classes), Variant::automatic, 0, device);
  };
  EXPECT_EQ(configOf(8192, 3584, 152064, h200()).dWeight.block.str(), "192x256");
  EXPECT_EQ(configOf(8192, 1152, 262144, h200()).dWeight.block.str(), "256x192") << "1152 is six times 192";
  EXPECT_EQ(configOf(8191, 1600, 50264, h200()).dWeight.block.str(), "192x128") << "1600 is not 7 times 256";
  EXPECT_EQ(configOf(4096, 3584, 256000, h200()).forward.block.str(), "256x192");
  EXPECT_EQ(configOf(8192, 3072, 32064, h200()).forward.block.str(), "128x192");
  EXPECT_EQ(configOf(2048, 8192, 256000, h100).forward.block.str(), "128x192");
}

TEST(PlanForHopper, AnH100WalksSixRowsOfTilesOfAWideWeightGradient) {
  DeviceInfo h100 = h200();
  h100.name = "NVIDIA H100 80GB HBM3";
  const auto weightOf = [&](int64_t rows, int64_t hidden, int64_t classes) {
    return plan(hopperProblem(rows, hidden, classes), Variant::automatic, 0, h100)->dWeight;
  };
  EXPECT_EQ(weightOf(8192, 3584, 152064).str(), "128x192/0 pingPong, 4 stages, raster 6, cluster 1");
  EXPECT_EQ(weightOf(8192, 3072, 32064).rasterRows, 6);
  EXPECT_EQ(weightOf(8192, 2560, 262208).str(), "192x128/0 pingPong, 4 stages, raster 6, cluster 1");
  EXPECT_NE(weightOf(8192, 896, 151936).rasterRows, 6) << "X stays in the cache";
  EXPECT_NE(plan(hopperProblem(8192, 3584, 152064), Variant::automatic, 0, h200())->dWeight.block.str(),
            "128x192");
}

TEST(PlanForHopper, WideTilesAreNotWalkedInSingleRows) {
  const int64_t ofTwoChunks = int64_t(1100) << 20;
  const auto config = plan(hopperProblem(16384, 3072, 32064), Variant::automatic, ofTwoChunks, h200());
  ASSERT_EQ(config->chunkRows, 8192);
  EXPECT_EQ(config->dWeight.str(), "128x192/0 pingPong, 4 stages, raster 6, cluster 1");
}

// Where no tile is stored there is memory for a further stage, and pairs share what they copy. Exponentials
// of shallow tiles hide behind another's product.
TEST(PlanForHopper, ALossAloneHasAFurtherStage) {
  const auto forwardOf = [](int64_t hidden) {
    Request p = hopperProblem(16384, hidden, 128256);
    p.dHidden = p.dWeight = std::nullopt;
    const Config config = *plan(p, Variant::automatic, 0, h200());
    EXPECT_LE(sharedBytesOf(chunked(p), ProductKind::forward, config.forward), h200().sharedBytes);
    return config.forward.str();
  };
  EXPECT_EQ(forwardOf(4096), "256x192/0 cooperative, 4 stages, raster 11, cluster 2");
  EXPECT_EQ(forwardOf(1024), "128x192/0 pingPong, 5 stages, raster 44, cluster 2");
}

TEST(PlanForHopper, ChunksAreWholeTilesOfEqualSize) {
  const Request p = hopperProblem(16384, 4096, 128256);
  const int64_t limit = 4.1 * (int64_t(1) << 30);
  const Config config = *plan(p, Variant::automatic, limit, h200());
  EXPECT_EQ(config.chunks(p), 3);
  EXPECT_EQ(config.chunkRows, 5504);
  EXPECT_LE(bytesOf(p, config), limit);
  EXPECT_EQ(plan(p, Variant::automatic, limit * 3 / 4, h200())->chunkRows % 128, 0);
}

// Several chunks of a bf16 gradient add up in a buffer of fp32, which may be larger than what they save of E.
TEST(PlanForHopper, OneChunkWhereItTakesNoMoreMemory) {
  for (const Request &p : {hopperProblem(4096, 4096, 128256), hopperProblem(8192, 2304, 256000),
                           hopperProblem(16384, 4096, 128256)})
    EXPECT_EQ(plan(p, Variant::automatic, 0, h200())->chunks(p), 1) << p.str();
  const Request main = hopperProblem(16384, 4096, 128256);
  const Config config = *plan(main, Variant::automatic, 4.2 * (int64_t(1) << 30), h200());
  EXPECT_EQ(config.chunks(main), 1);
  EXPECT_EQ(config.weightColumns(chunked(main)), 2048)
      << "else u would take as much as X and E's sums together";
  const Request larger = hopperProblem(65536, 4096, 128256);
  EXPECT_EQ(plan(larger, Variant::automatic, 0, h200())->chunks(larger), 4);
}

TEST(PlanForHopper, OtherProblemsTakePortableCode) {
  Request odd = hopperProblem(4096, 4095, 128256);
  odd.aligned = false;
  const Request f32 = problem(4096, 4096, 128256);
  for (const Request &p : {odd, f32}) {
    const Config config = *plan(p, Variant::automatic, 0, h200());
    for (const ProductKind kind : {ProductKind::forward, ProductKind::dHidden, ProductKind::dWeight}) {
      EXPECT_FALSE(hasRoles(config[kind])) << p.str();
      EXPECT_EQ(config[kind].block.str(), "128x128");
    }
  }
}

TEST(PlanForHopper, LittleMemoryAddsUpInPlace) {
  constexpr int64_t gib = int64_t(1) << 30;
  const Request p = hopperProblem(16384, 4096, 128256);
  const auto planned = [&](double gibs) {
    const Config config = *plan(p, Variant::automatic, static_cast<int64_t>(gibs * gib), h200());
    EXPECT_LE(bytesOf(p, config), gibs * gib);
    return config;
  };
  EXPECT_TRUE(planned(1.5).inPlace) << "an fp32 for each number of dW takes 2 GiB";
  EXPECT_EQ(planned(1.5).variant, Variant::chunked);
  EXPECT_TRUE(planned(2.2).inPlace) << "else there would be fifty chunks";
  EXPECT_FALSE(planned(3.5).inPlace);
  EXPECT_EQ(planned(1.1).variant, Variant::recompute) << "chunks of a few hundred rows cost more";
  Request f32 = p;
  f32.dWeight = ElementType::f32;
  EXPECT_FALSE(plan(f32, Variant::automatic, gib, h200())->inPlace) << "the caller's memory holds the sums";
}

// Halves of few columns are two products of tiles that are half empty: an H200 took 26.3 ms, and 21.0 with
// more chunks whose dW adds up in a buffer.
TEST(PlanForHopper, NarrowHeadsAddUpInABuffer) {
  const Request p = hopperProblem(65536, 576, 49152);
  EXPECT_FALSE(plan(p, Variant::automatic, int64_t(600) << 20, h200())->inPlace);
}

// Of two full strips in turns, where those fill ten rounds of the multiprocessors.
TEST(PlanForHopper, ALossOfOneStripOfRowsTakesWideTiles) {
  const auto forwardOf = [](int64_t rows, int64_t classes) {
    Request p = hopperProblem(rows, 4096, classes);
    p.dHidden = p.dWeight = std::nullopt;
    return plan(p, Variant::automatic, 0, h200())->forward.str();
  };
  EXPECT_EQ(forwardOf(128, 128256), "128x256/0 cooperative, 4 stages, raster 1, cluster 1");
  EXPECT_EQ(forwardOf(255, 128256), "128x256/0 cooperative, 4 stages, raster 2, cluster 1");
  EXPECT_EQ(forwardOf(256, 128256), "128x200/0 pingPong, 5 stages, raster 2, cluster 1");
  EXPECT_EQ(forwardOf(256, 32000), "128x256/0 cooperative, 4 stages, raster 2, cluster 1") << "two rounds";
  EXPECT_EQ(forwardOf(4096, 128256), "256x192/0 cooperative, 4 stages, raster 16, cluster 2");
}

TEST(PlanForHopper, RecomputesTheMainShapeInAQuarterOfAGiB) {
  const int64_t limit = int64_t(256) << 20;
  const Scheme p = recomputed(hopperProblem(16384, 4096, 128256));
  const Config config = *plan(p, Variant::recompute, limit, h200());
  EXPECT_EQ(config.chunkRows, 768);
  EXPECT_EQ(config.tail.parts, 2) << "33 pairs of tiles, twice";
  EXPECT_EQ(config.tail.begin, 0);
  EXPECT_EQ(config.sliceClasses, 16 * 192) << "17 strips of dW's tiles would be two rounds of the half";
  EXPECT_EQ(config.slices(p).size(), 42);
  EXPECT_EQ(config.weightColumns(p), 2048);
  EXPECT_EQ(config.dWeight.block.str(), "192x256");
  EXPECT_EQ(config.again.str(), "128x192/0 pingPong, 4 stages, raster 12, cluster 1");
  EXPECT_LE(bytesOf(p, config), limit);
  EXPECT_EQ(plan(hopperProblem(16384, 4096, 128256), Variant::automatic, limit, h200())->str(), config.str());
}

// dW's memory is free before its values are stored.
TEST(PlanForHopper, RecomputesInBorrowedMemory) {
  const int64_t limit = int64_t(256) << 20, weightBytes = 2 * 128256 * 4096;
  Request asked = hopperProblem(16384, 4096, 128256);
  asked.borrowedBytes = weightBytes;
  const Scheme p = recomputed(asked);
  const Config config = *plan(p, Variant::recompute, limit, h200());
  EXPECT_EQ(config.chunkRows, 768);
  EXPECT_EQ(config.sliceClasses, 16 * 192);
  EXPECT_EQ(config.borrowedClasses, 39 * 192) << "five tiles of dW for almost each of 66 pairs";
  EXPECT_EQ(config.keptClasses % 192, 0);
  EXPECT_GT(config.keptClasses, 3 * config.borrowedClasses);
  EXPECT_LE(bytesOf(p, config), limit);

  int64_t classes = 0;
  for (const Slice &slice : config.slices(p)) {
    EXPECT_EQ(slice.first, classes);
    classes += slice.count;
    if (slice.where == Slice::Where::workspace) continue;
    const bool isKept = slice.where == Slice::Where::kept;
    const TensorTable table = tensorsOf(p, config);
    const int64_t begin = isKept ? table[tensor::keptE].offset
                                 : std::min(table[tensor::borrowedE].offset, table[tensor::borrowedU].offset);
    EXPECT_LE(2 * 4096 * classes, begin);
  }
  EXPECT_EQ(classes, p.classes);
  const TensorTable table = tensorsOf(p, config);
  const auto end = [&](TensorId id) { return table[id].offset + table[id].bytes(); };
  ASSERT_EQ(table[tensor::e].arena, Arena::borrowed);
  EXPECT_LE(end(tensor::e), table[tensor::keptE].offset);
  for (const TensorId id : {tensor::keptE, tensor::borrowedE, tensor::borrowedU})
    EXPECT_LE(end(id), weightBytes);
}

// Only dW and db have a second pass, which the first leaves E to where there is no dX.
TEST(PlanForHopper, APassForEitherGradient) {
  Request p = hopperProblem(16384, 4096, 128256);
  p.dWeight = std::nullopt;
  const Config ofX = *plan(p, Variant::recompute, int64_t(220) << 20, h200());
  EXPECT_EQ(ofX.chunkRows, 768);
  EXPECT_FALSE(tensorsOf(recomputed(p), ofX).has(tensor::allX));
  p.dWeight = p.dHidden, p.dHidden = std::nullopt;
  const Config ofW = *plan(p, Variant::recompute, int64_t(220) << 20, h200());
  EXPECT_FALSE(tensorsOf(recomputed(p), ofW).has(tensor::e));
  p.dWeight = std::nullopt, p.dBias = ElementType::bf16;
  const Config ofBias = *plan(p, Variant::recompute, int64_t(220) << 20, h200());
  EXPECT_GT(ofBias.sliceClasses, 0);
  EXPECT_EQ(ofBias.borrowedClasses + ofBias.keptClasses, 0) << "there is no dW";
  EXPECT_GT(ofW.chunkRows, 10 * ofX.chunkRows);
}

TEST(PlanForHopper, GradientsInF16AreMadeOfF16) {
  Request f16 = hopperProblem(4096, 4096, 128256);
  f16.element = ElementType::f16;
  EXPECT_EQ(chunked(f16).exponentials, ElementType::f16);
  EXPECT_EQ(chunked(f16).fixUp, FixUp::rescale) << "what a row's gradient is has to be known first";
  const Config config = *plan(f16, Variant::automatic, 0, h200());
  for (const ProductKind kind : {ProductKind::forward, ProductKind::dHidden, ProductKind::dWeight})
    EXPECT_TRUE(hasRoles(config[kind]));
  // Then a class's part is more than E times a factor of the row.
  f16.terms.softcap = true;
  EXPECT_EQ(chunked(f16).fixUp, FixUp::again);
  // Norms may be anything, and with them what E is divided by.
  f16.terms.margin = true;
  EXPECT_EQ(chunked(f16).exponentials, ElementType::f32);
  const Config normalised = *plan(f16, Variant::automatic, 0, h200());
  EXPECT_FALSE(hasRoles(normalised.dHidden) || hasRoles(normalised.dWeight));
}

} // namespace
} // namespace tilewright::lce
