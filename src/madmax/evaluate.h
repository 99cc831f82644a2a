// MAD-Max's public model (ISCA'24), as its code computes it: time, throughput and memory of one
// iteration from three small descriptions. docs/internals/madmax.md lists what it omits and where
// Tandem's own model differs. This directory shares nothing with that model.
//
//   inputs      three JSON files -> Model, System, Task
//   bandwidths  System -> bytes per second of every collective, by level
//   layer       a layer's work on one device -> times
//   iteration   layers in order -> two streams -> the end
//   evaluate    the layers, their order and dependencies: one file for each family
#pragma once

#include "madmax/inputs.h"
#include "madmax/result.h"

namespace tandem::madmax {

IterationResult evaluate(const Model& model, const System& system, const TaskDescription& task);

// Evaluates models with MLPs: embeddings, bottom MLP, optional transformer, top MLP.
IterationResult evaluate_recommendation(const Model& model, const System& system,
                                        const TaskDescription& task);
// Evaluates language and vision models: an embedding and equal blocks of attention and FFN.
IterationResult evaluate_transformer(const Model& model, const System& system,
                                     const TaskDescription& task);

}  // namespace tandem::madmax
