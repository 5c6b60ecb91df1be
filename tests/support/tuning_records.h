#pragma once

#include <string>

#include "autotune/tuning_record.h"

namespace tilewright::test {

inline TuningKey sampleKey(const std::string &type) {
  return {"device", "loss", {{"rows", int64_t(1024)}, {"type", type}}};
}

inline TuningRecord sampleRecord(const std::string &type, double milliseconds = 12.5) {
  const auto configuration = [](int64_t chunk) {
    return Configuration{{"variant", "chunked"}, {"chunk_rows", chunk}};
  };
  TuningRecord record;
  record.key = sampleKey(type);
  record.deviceName = "A processor, 2 threads";
  record.compiler = "compiler 1";
  record.complete = true;
  record.limit = 60;
  record.tried = 61;
  record.heuristic = {configuration(256), 14, 5, 2048};
  record.winners = {{configuration(512), milliseconds, 5, 4096, {12.25, 12.75, 1755}},
                    {configuration(128), 20.25, 5, 1024}};
  record.measured = {{configuration(384), 15, 1, 3000}};
  record.parts = {{"forward", {{"forward_rows", int64_t(128)}}, 3.5, 5}};
  return record;
}

} // namespace tilewright::test
