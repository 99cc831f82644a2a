// Limits of the search's effort and margins of its decisions, each with its reason. None of them
// decides whether a plan is valid. With other values the search finds the same plan or nearly the
// same, sooner or later.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::search::limits {

// Improvement of a pool (search/improve.h).
// A neighbourhood is repeated once the best time falls to this times what it was. Smaller gains are
// within the error of a prediction.
inline constexpr double kWorthAnotherRound = 0.995;

// Size of a network, and of one simulation.
// Number of operators from which simulating one strategy takes a good part of a second.
inline constexpr std::size_t kLargeNodes = 2000;
// Most operators times micro-batches of one simulation: half a minute and 4 GB.
inline constexpr std::int64_t kMostOperatorPasses = 20'000'000;
// Most combinations of a sweep. More are a user's mistake.
inline constexpr std::size_t kMostCases = 10'000;

// Trust in estimates.
// Candidates whose estimate is slower than this times the best are not simulated.
inline constexpr double kUncertain = 1.08;
// Divisor that turns a close estimate into a lower bound. Close estimates are within 1 %.
inline constexpr double kNearly = 1.03;
// Divisor that turns a rough estimate into a lower bound. Rough estimates are within 15 %, except
// for some with tied weights or shared links.
inline constexpr double kRoughly = 1.25;
// Divisor that turns the memory of a rough estimate into a lower bound.
inline constexpr double kRoughMemory = 1.05;
// Number of rough estimates per case that `explore` simulates at a time, until none may be on the
// front.
inline constexpr std::size_t kRoughSimulated = 8;
// The grid is pruned by the best simulated time times this. Close estimates are within 1 %.
inline constexpr double kEstimateMargin = 1.01;
// Excess of memory, as a fraction of the limit, above which no change of layouts makes a plan of a
// large network fit.
inline constexpr double kFarTooLarge = 0.25;
// Such an excess for other networks, whose layouts are searched to save memory.
inline constexpr double kTwiceTooLarge = 1;
// An estimate of memory decides if it differs from the limit by more than this fraction.
inline constexpr double kUnsureMemory = 0.02;

// Numbers of strategies that are simulated. Larger ones find the same plans in the enumeration of
// tests/search.
// Number of baselines per family, chosen by estimate.
inline constexpr std::size_t kPerFamily = 8;
// Most estimated strategies of the grid that are simulated.
inline constexpr std::size_t kSimulated = 8;
// Most estimated strategies of the grid that are simulated for a large network.
inline constexpr std::size_t kLargeSimulated = 3;
// Number of strategies that are simulated to find whether anything fits.
inline constexpr std::size_t kSmallest = 2;
// Most shardings by kind of layer (MAD-Max) that are all estimated. If there are more, one kind of
// layer is varied at a time.
inline constexpr std::size_t kWholeShardings = 300;
// Most such shardings if each is simulated.
inline constexpr std::size_t kSimulatedShardings = 64;
// Settings of a family that are simulated for its row.
inline constexpr std::size_t kBaselineSimulated = 3;
// A row is replaced by a setting that takes less than this times its time.
inline constexpr double kFasterRow = 0.999;
// Simpler strategies that are simulated at the end.
inline constexpr std::size_t kSimplerTried = 4;
// Number of operators simulated without a gain before a simulated grid ends: some seconds on one
// core.
inline constexpr double kGridPatience = 4e6;
// The best setting of another pipeline depth or tensor parallelism is considered, too, if it is at
// most this much slower. Layouts of its own may make up for the difference.
inline constexpr double kOtherShapeSlower = 1.25;
// Most settings that are considered so.
inline constexpr std::size_t kOtherShapes = 6;

// The complete grid.
// Most virtual stages of a rank that need not divide the layers.
inline constexpr std::int64_t kMostUnevenVirtualStages = 8;
// Most strategies that are estimated to find the one that needs the least memory.
inline constexpr std::size_t kSmallestEstimated = 256;
// Most strategies that are simulated for that.
inline constexpr std::size_t kSmallestSimulated = 8;
// Most operators times micro-batches of such a simulation; below that, the same if the memory bound
// exceeds the limit.
inline constexpr double kWorkOfSmallest = 2e5;
inline constexpr double kWorkOfTooLarge = 1e4;

// Advice on a strategy.
// A change is reported if the step then takes at most this times its present time.
inline constexpr double kWorthTelling = 0.99;
// Settings that fit and are within this of the fastest count as equally fast: the fewest changes
// win.
inline constexpr double kNearlyAsFast = 1.02;

// Leaders: the candidates that neighbourhoods start from.
// Most leaders of each graph.
inline constexpr std::size_t kLeaders = 16;
// Strategies that a rewritten graph is laid out under.
inline constexpr std::size_t kRewrittenStrategies = 4;
// Strategies that a large rewritten graph is laid out under.
inline constexpr std::size_t kLargeRewrittenStrategies = 1;
// Most rounds of changes of a rewritten graph's best strategy.
inline constexpr int kChangeRounds = 4;
// Strategies whose layouts seed the ranking of rewrites.
inline constexpr std::size_t kRankedUnder = 6;
// Leaders whose weights get another storage.
inline constexpr std::size_t kStored = 8;
// Devices are stalled if exposed communication takes this fraction of the step.
inline constexpr double kWaits = 0.02;
// Leaders of a rewrite that get the embedding table placement of the best plan.
inline constexpr std::size_t kBesides = 2;
// Rewrites within this of the best are laid out under more strategies.
inline constexpr double kNearBest = 1.03;
// Most rewrites that are laid out so.
inline constexpr std::size_t kNearest = 3;
// Strategies for each of these rewrites.
inline constexpr std::size_t kOfNearest = 6;

// Pipelines whose ranks have settings of their own.
// Settings within this of the best are mixed.
inline constexpr double kMixNearBest = 1.25;
// Most settings, of different pipelines, that are mixed.
inline constexpr std::size_t kMixBases = 6;
// Most settings that are mixed for a large network.
inline constexpr std::size_t kLargeMixBases = 2;
// Settings that are also mixed with other numbers of micro-batches.
inline constexpr std::size_t kMixVaried = 2;
// Such settings for a large network.
inline constexpr std::size_t kLargeMixVaried = 1;
// Ranks share a layer or a sequence among at most this times as many devices.
inline constexpr std::int64_t kMixMoreDevices = 2;
// Mixtures that are simulated.
inline constexpr std::size_t kMixesTried = 2;
// A mixture's predicted time must be at most this times the best.
inline constexpr double kWorthMixing = 0.997;
// Corrections of the predicted memory by that of the lowered program.
inline constexpr int kMixCorrections = 8;
// Largest ratio of simulated to predicted time of a mixture. A larger one means that layers do not
// divide as predicted.
inline constexpr double kMixRounded = 1.01;
// Fraction of the memory that is left free beyond the prediction.
inline constexpr double kMixMemoryStep = 0.002;
// Shares of recomputed operators that differ by less count as equal.
inline constexpr double kShareStep = 0.01;

// Layouts.
// Strategies whose stages get layouts of their own.
inline constexpr std::size_t kLaidOut = 3;
// Such strategies for a large network.
inline constexpr std::size_t kLargeLaidOut = 1;
// Most operators of a network whose layers differ, for which is priced what such layouts save.
inline constexpr std::size_t kPricedNodes = 100;
// Fraction of a step's cost that other layouts must save to be searched for.
inline constexpr double kLayoutGain = 1e-4;
// For a large network the price of memory is raised only if the best plan takes more than this
// times the fastest layouts.
inline constexpr double kFarLonger = 2;
// More prices are tried for a graph whose layouts take at most this times the best plan.
inline constexpr double kNearBestLayouts = 1.1;
// Fraction of the work after which gradients that are ready later overlap almost nothing.
inline constexpr double kLateGradients = 0.02;
// Halvings of the gap between a price at which nothing fits and one at which something does.
inline constexpr int kHalvings = 5;
// Mixtures of the layouts at these two prices.
inline constexpr std::size_t kMixedLayouts = 4;
// Times that a price rises by a factor of sqrt(2): 16,000 times in all.
inline constexpr int kRises = 28;
// The rise ends this many prices after the one that needs the least memory,
inline constexpr int kBeyondLeast = 4;
// if the present one needs more than this times that memory.
inline constexpr double kMoreMemory = 1.5;
// The rise also ends above this times a byte's share of the step, where only memory counts,
inline constexpr double kDear = 64;
// once the memory changes by less than this fraction.
inline constexpr double kSameMemory = 0.001;
// If the memory exceeds the limit by at most this fraction, some prices next to the best are tried.
inline constexpr double kNearlyFits = 0.1;
// A bound of layouts this near to the best is not raised further.
inline constexpr double kBoundClose = 0.95;
// Steps by which the weights of a bound move. Each move solves the layouts once.
inline constexpr double kFirstWeightStep = 0.5;
inline constexpr double kLastWeightStep = 0.125;
// All weights are moved again by the same step if that raised the bound by this factor.
inline constexpr double kWeightsGain = 1.02;
// Most layouts of a tensor with several readers: those that the better states of its ends use.
inline constexpr std::size_t kTensorStates = 96;

// Rewrites.
// States of an operator while graphs are ranked: half of those for a plan.
inline constexpr std::size_t kRankingStates = 32;
// Entries of cost tables that are cached for other graphs: 128 MB.
inline constexpr std::size_t kMostTableEntries = 1U << 25U;
// Costs that differ by less than this fraction count as equal.
inline constexpr double kSameCost = 1e-4;
// Smallest gain, as a fraction, that counts as progress of the ranking.
inline constexpr double kRewriteGain = 1e-3;
// Number of graphs that are ranked in any case. Then the ranking ends once the last third of all
// has brought no progress.
inline constexpr std::size_t kLeastRanked = 60;
// Most places where one rule is applied, so that no rule is applied for ever.
inline constexpr int kMostRuleUses = 100;

// Placement of embedding tables and branches.
// Placements that are simulated with all tables placed the same way.
inline constexpr std::size_t kMostTablesAlike = 120;
// Placements that are simulated with tables placed one by one.
inline constexpr std::size_t kMostTablesPlaced = 160;
// Placements that are simulated beside operators on fewer devices.
inline constexpr std::size_t kMostNarrowed = 80;
// A search of placements starts only if its first placement is within this of the best.
inline constexpr double kHopeless = 1.3;
// Placements of branches that are simulated for one plan.
inline constexpr std::size_t kMostBranchesPlaced = 120;
// Plans whose branches are placed.
inline constexpr std::size_t kBranchedPlans = 2;
// Fraction of the weights that branches must have. With fewer, little is saved.
inline constexpr double kBranchWeights = 0.5;
// Branches are placed one by one if the best placement of all the same way is within this of the
// best.
inline constexpr double kAlikeTooSlow = 1.5;

// Fewer devices.
// A part of the machine must take at most this times the time of the whole machine.
inline constexpr double kWorthFewer = 0.999;
// Largest ratio of the device counts of a part and the part before, if layouts are searched.
inline constexpr double kNextPart = 0.6;
// Parts on each side of the fastest that are searched next.
inline constexpr std::size_t kPartsBeside = 2;
// Up to this number of parts for pipelines only, all are searched.
inline constexpr std::size_t kFewParts = 16;
// Most that rewrites may gain if a part is judged only by its layouts.
inline constexpr double kRewritesMayGain = 1.15;
// Most that layouts may gain on a part, beyond their gain on all of a machine with several kinds of
// devices.
inline constexpr double kLayoutsMayGain = 1.05;
// Parts within this of the fastest, by layouts alone or by plain strategies, are searched with
// rewrites and layouts.
inline constexpr double kNearPart = 1.1;
// Most of them whose gain by layouts is priced.
inline constexpr std::size_t kPartsPriced = 8;
// Most parts that are searched with rewrites.
inline constexpr std::size_t kPartsRewritten = 3;
// Number of units up to which every count of units is a part. Above it, only powers of two are,
inline constexpr std::int64_t kEveryCount = 64;
// and this many of the largest counts that have only small factors.
inline constexpr int kSmoothCounts = 4;

}  // namespace tandem::search::limits
