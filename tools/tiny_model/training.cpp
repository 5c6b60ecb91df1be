#include "tools/tiny_model/training.h"

#include <chrono>
#include <cmath>
#include <random>

#include "tools/tiny_model/corpus.h"
#include "tools/tiny_model/tokenizer.h"

namespace tilewright {
namespace {

constexpr std::size_t kTextBytes = 600000;
constexpr int kFewestSteps = 100;
constexpr double kRate = 4e-3;

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Rises for a few steps, then falls as a quarter wave to a twentieth.
double rateAt(int step, int steps) {
  const double warmUp = std::min(1.0, (step + 1) / 20.0);
  return kRate * warmUp * (0.05 + 0.95 * 0.5 * (1 + std::cos(M_PI * step / steps)));
}

std::string writeSample(const NextTokenModel &model, const Tokens &tokens, std::mt19937 &random) {
  constexpr int length = 48, choices = 8;
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<int32_t> ids(tokens.ids.begin(), tokens.ids.begin() + model.sizes().context);
  std::string text;
  for (int i = 0; i < length; ++i) {
    ids.push_back(model.next(&ids[ids.size() - model.sizes().context], choices, uniform(random)));
    text += tokens.spelling[ids.back()];
  }
  return text;
}

} // namespace

StatusOr<Training> trainOnRepository(Runtime &runtime, int steps, double seconds) {
  const Corpus corpus = repositoryText(kTextBytes);
  Training training;
  const Tokens tokens = tokenize(corpus.text, static_cast<int>(training.sizes.vocabulary));
  training.sizes.vocabulary = static_cast<int64_t>(tokens.spelling.size());
  training.origin = corpus.origin;
  training.textBytes = corpus.text.size();
  training.tokens = tokens.ids.size();
  TW_ASSIGN_OR_RETURN(NextTokenModel model, NextTokenModel::make(runtime, training.sizes));

  std::mt19937 random(5);
  std::uniform_int_distribution<int64_t> anywhere(training.sizes.context,
                                                  static_cast<int64_t>(tokens.ids.size()) - 1);
  std::vector<int64_t> places(training.sizes.batch);
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < steps && (step < kFewestSteps || secondsSince(start) < seconds); ++step) {
    for (int64_t &place : places)
      place = anywhere(random);
    TW_ASSIGN_OR_RETURN(const double loss, model.trainStep(tokens.ids, places, rateAt(step, steps)));
    training.losses.push_back(loss);
  }
  training.seconds = secondsSince(start);
  training.lossMilliseconds = model.lossMilliseconds();
  training.sample = writeSample(model, tokens, random);
  return training;
}

} // namespace tilewright
