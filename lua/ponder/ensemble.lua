--- Ways to get one good answer from many samples: best of n, self-consistency, ranking, judging,
--- debate.
---
---     local ensemble = require "ponder.ensemble"
---     local result, message, code = ensemble.self_consistency { model = "openai:gpt-6-luna",
---         prompt = "How many primes are below 50? Think, then end with: Answer: N", n = 8 }
---     print(result.answer, result.score, result.entropy)
---
--- The calls of a step run concurrently. Samples of one prompt are different requests: each has a
--- number (`sample`), which is part of the request's identity in a cache or run log and is added to
--- `seed`. Where all of them are needed, the provider is known to have several in one request
--- (`n`), and they have no seeds, it is one request, which pays for the prompt once. Whether their
--- texts differ depends on the temperature.
---
--- Failed calls are counted (`failed`) and listed (`errors`, a list of {sample, message, code});
--- the others are used. If fewer than `min_successes` (default 1) succeed, the function returns
--- `nil, message, code, partial` with the first failure.
---
--- Each function takes one table. `concurrency` limits the calls at once (default: no limit).
--- `on_error` is that of task.map: "collect", the default, counts errors in your functions as
--- failures, "raise" raises them.
---
--- Some rules end the sampling early: `stop_at`, `first`, `consensus`, `cost`, `enough`. They
--- decide in the order of the samples (`first` by time in that of the replies), so that
--- `concurrency` changes nothing, and by default no call is made that they might not need. Their
--- results say how far it went, and so does the event `ensemble.stopped` of the log: `stopped_at`,
--- the last sample that counted; `calls` asked for; of these `cancelled` before the end of their
--- reply; `saved`, those of n that were not asked for; `used`, the samples that the choice is from.
--- With `eager = true` as many as `concurrency` are kept in flight, and what is cancelled at the
--- end is part of `spent`.
---
--- A model is open or a name; a prompt is a text or a list of messages. Options of a call
--- (temperature, max_output_tokens, seed, timeout_ms, on_delta(text, kind, sample)...) go into the
--- same table. Every result has `stop_reason`, `failed`, `errors` and `spent` (a
--- ponder.task.Spent), but for parallel_judge also `answer` and `score`, and can be encoded as
--- JSON. A notice says when all samples are equal. The functions that make calls must be called
--- within a task.

local confidence = require "ponder.think.ensemble.confidence"
local search = require "ponder.search"

---@class ponder.ensemble.Options: ponder.model.CallOptions
---@field model ponder.model.Model|string
---@field prompt string|ponder.model.Message[]
---@field concurrency? integer calls at once, default no limit
---@field on_error? "collect"|"raise" for errors in your functions; default "collect"
---@field min_successes? integer default 1

---@class ponder.ensemble.BestOptions: ponder.ensemble.Options
---@field n? integer samples, default 5
---@field verify? fun(text: string, sample: integer): boolean true: return this sample
---@field reward? fun(text: string, sample: integer): number higher is better; or `judge`
---@field judge? function|ponder.model.Model|string
---@field votes? integer how often to ask a judging model, default 1
---@field cost? number of a call, in units of reward: ends it when another call is not worth that
---@field min_samples? integer before `cost` may end it, default 3
---@field tail? "exponential"|"normal" of the rewards, default "exponential"
---@field optimism? number default 1: how much wider the rewards may be than they look
---@field enough? number a reward that ends it
---@field eager? boolean with cost or enough

---@class ponder.ensemble.ConsistencyOptions: ponder.ensemble.Options
---@field n? integer samples, default 8
---@field extract? fun(text: string): any
---@field normalize? fun(answer: any): any
---@field vote? "majority"|"weighted" default "majority"
---@field confidence? string|fun(answer: any, text: string, reply: ponder.model.Reply): number
---@field keep? number of weighted votes, the share with the highest weights that counts
---@field window? integer tokens, of a confidence by name, default 2048
---@field warmup? integer samples before streams may be cancelled, default 16 with consensus
---@field consensus? number of weighted votes, the share that ends it
---@field stop_at? number the certainty that ends it
---@field min_samples? integer before stop_at may end it, default 1
---@field eager? boolean with stop_at or consensus
---@field first? integer how many answers vote: the first to arrive
---@field finish? "time"|"tokens" "tokens": the shortest instead, once all have arrived

---@class ponder.ensemble.JudgeOptions
---@field items any[]
---@field judge fun(item: any, index: integer): any
---@field concurrency? integer items at once, default 4
---@field on_error? "collect"|"skip"|"fail_fast"|"raise" default "collect"
---@field on_progress? fun(progress: table) after each item: {done, total, failed, index, verdict,
---  message, code}

---@class ponder.ensemble.RankOptions
---@field items any[]
---@field compare? fun(a: any, b: any, i: integer, j: integer): number
---@field judge? ponder.model.Model|string in place of compare
---@field prompt? string|ponder.model.Message[] with judge: the question that the items answer
---@field logprobs? boolean with judge: take its probabilities of the letters, where it reports them
---@field method? "knockout"|"league"|"swiss" default "knockout"
---@field repeats? integer default 2
---@field seed? integer default: the order of the items
---@field key? fun(item: any, index: integer): any
---@field concurrency? integer calls at once, default no limit
---@field on_error? "collect"|"raise" for errors in compare; default "collect"
---@field opponents? integer league: how many each item meets, about; default all
---@field min_degree? integer swiss, default 2
---@field window? integer swiss, default 8
---@field budget? integer swiss: pairs, default 3 per item
---@field tau? number swiss, default 0.1

---@class ponder.ensemble.DebateOptions: ponder.ensemble.Options
---@field model nil
---@field debaters any[] at least two: models, or {model, name, system}
---@field n_rounds? integer default 3
---@field adaptive_stop? boolean default false
---@field stability_threshold? number default 0.15
---@field extract? fun(text: string): any as in self_consistency
---@field normalize? fun(answer: any): any
---@field on_round? fun(round: table)

local ensemble = {}

---Tree search over callbacks, an alias of ponder.search.run.
---@see ponder.search.run
ensemble.tree_of_thoughts = search.run

---The best of `n` samples: by `reward(text, sample)`, a number, higher is better; or by `judge`, a
---function from (texts, question) to the index of the best, or a model that gives `votes` votes
---(with the prompt `judge` of prompts/ensemble.lua). Without either, the same model judges.
---`verify(text, sample)` is called for each sample when it arrives: the first that it accepts is
---the result, and the remaining calls are cancelled or not made. These functions may wait, and may
---return nil, message, code. Ties go to the first sample; a single candidate is not judged.
---
---With a reward, `enough` ends it at the first sample whose reward reaches it, and `cost`, that of
---a call in units of reward, when a further sample is not expected to be worth it: when the best
---reward reaches Weitzman's index of the rewards so far, whose upper tail is taken for `tail`,
---wider by `optimism`/sqrt(samples) (Weitzman 1979, "Optimal Search for the Best Alternative"; cf.
---Kalayci et al. 2025, "Optimal Stopping vs Best-of-N for Inference Time Optimization"). The first
---`min_samples` are asked for at once, then one at a time.
---
---Result: `answer`, a text, `sample` (its number), `score` (with reward), `stop_reason`
---("verified", "n"; with cost or enough "worth", "enough" or "max"), `candidates`: list of {sample,
---text, finish_reason, score, votes}; `cap`, with cost, the reward that would have ended it.
---@param opts ponder.ensemble.BestOptions
---@return table? result
---@return string? message
---@return string? code
---@return table? partial {candidates, failed, errors, spent}
ensemble.best_of_n = require "ponder.think.ensemble.best_of_n"

---The answer that most of `n` reasoning paths reach, after Wang et al. 2022, "Self-Consistency
---Improves Chain of Thought Reasoning in Language Models".
---
---`extract(text)` finds the answer in a reply (default: `parse.answer`); with `returns`, as in
---m:complete, the answer is the value. `normalize(answer)` makes the key by which answers, a value
---as text, are compared (default: ignores case, spaces, punctuation and the format of numbers).
---With `tools` the calls of a reply are its answer; calls are equal if their names and arguments
---are, in any order and form of JSON. `vote` is "majority", or "weighted" by `confidence(answer,
---text, reply)`, a number >= 0; default: the exponential of the mean log probability of the reply's
---tokens, which needs a model with logprobs. It may also be the name of a measure of
---ensemble.confidence, "lowest", "tail", "bottom" or "mean"; then `keep = 0.1` lets only the best
---tenth vote, after Fu et al. 2025, "Deep Think with Confidence". A sample without an answer or
---weight has failed.
---
---With `warmup` it is their online form, that of ensemble.online_confidence, for a model that
---streams logprobs: the first `warmup` samples set a threshold, and the stream of a later one is
---cancelled where its confidence falls below that. `keep` is 0.1 unless given. With `consensus` it
---ends once the leader's share of the weight reaches that; then, unless `eager`, it asks for one
---sample at a time after the warm-up, as each may end it. Where a reply comes whole (from a log, or
---a server that does not stream) the decision is the same, and saves nothing.
---
---`stop_at = 0.95` ends a majority vote when it is that certain that the leading answer would also
---win if it went on: after the first sample, of at least `min_samples`, with certainty = 1 - I(1/2;
---v1 + 1, v2 + 1) of the votes of the two leading answers. Aggarwal et al. 2023, "Let's Sample Step
---by Step: Adaptive-Consistency for Efficient Reasoning and Coding with LLMs", the beta rule.
---(`stop` is an option of a call: stop sequences.)
---
---`first = m` lets only m answers vote, the first that arrive, and cancels the other calls; with
---`finish = "tokens"` all are awaited and the m shortest vote, by output tokens. Ties go to the
---answer whose first member is the earliest, or shortest. Hassid et al. 2025, "Don't Overthink it.
---Preferring Shorter Thinking Chains for Improved LLM Reasoning" (short-m@k).
---
---Result: `answer` as in its first sample; `tool_calls`, if these are the answer; `text` of its
---sample with the highest weight; `score` and `share`, its share of the votes, 0..1; `certainty` of
---a majority; `stop_reason` ("n"; with stop_at "sure" or "max"; with first "first", or "max" if
---there were fewer answers; with warmup "consensus" or "max", and `stops`, by sample the token at
---which it was cancelled, or false); `distribution`: list of {answer, key, count, weight, share},
---the highest weight first (ties: more samples, then the first to appear); `entropy` of the shares
---in bits, 0 if all agree; `samples`: list of {sample, text, answer, key, weight, tool_calls}, and
---with keep `kept`, and `threshold`, the least weight that votes.
---@param opts ponder.ensemble.ConsistencyOptions
---@return table? result
---@return string? message
---@return string? code
---@return table? partial {samples, failed, errors, spent}
ensemble.self_consistency = require "ponder.think.ensemble.self_consistency"

---Ranks items by comparing pairs of them.
---
---`compare(a, b, i, j)` returns how much the first is better, 0 to 1 (0.5: a tie), or nil, message,
---code; it may wait, and the pairs of a round are compared concurrently. Each pair is asked
---`repeats` times (default 2), every other time as (j, i), because judges favour a place. Its score
---s for i is the mean over what did not fail, else 0.5; i wins if s > 0.5. Instead of `compare`,
---`judge`, a model, compares texts as answers to `prompt`, by the prompt `compare` of
---prompts/ensemble.lua. With `key(item)`, items with equal keys are not compared: s = 0.5. `seed`
---shuffles the items first, as many methods favour an order.
---
---`method`: "knockout" (default; Chen et al. 2024, "Simple and Provable Scaling Laws for the
---Test-Time Compute of Large Language Models", arXiv 2411.19477): winners meet until one is left.
---"league": all pairs, or those with `opponents = m` neighbours; `scores` are Bradley-Terry
---strengths, as logarithms. "swiss" (after Singh et al. 2026, "V1: Unifying Generation and
---Self-Verification for Parallel Reasoners", a form of its own): each item meets `min_degree` (2)
---neighbours, then those of like strength among the next `window` (8) meet, until `budget` (3 per
---item) pairs have met; `mu` is the weighted share of games won, with weights |2s - 1|, at least
---`tau` (0.1).
---
---For the nodes of a search: `evaluate_all = function(states) return ensemble.rank { items =
---states, compare = better, method = "league" }.scores end`. Scores of one call compare with each
---other, so this is for searches that keep nodes by level, such as beam. For the policies of an
---evaluation: `eval.rank`.
---
---Result: `ranking`, the items' indices, the best first; `winner`, the first of these; `best`, its
---item; `rounds` of pairs {i, j}; `comparisons`, calls of compare; `stop_reason` "ranked"; of a
---league or swiss `points` (1, 0.5, 0 a game). In `errors`, `sample` numbers the comparisons.
---@param opts ponder.ensemble.RankOptions
---@return table result
ensemble.rank = require "ponder.think.ensemble.rank"

---How confident a model was, from the log probabilities of a reply (`reply.logprobs` of a call with
---`logprobs = 20`) or a list of the confidences of tokens: that of a token is minus the mean log
---probability of its alternatives. Fu et al. 2025, "Deep Think with Confidence" (DeepConf).
---
---Result: `tokens`, the list; `mean` of all; `tail`, the mean of the last `tail` (2048); `lowest`,
---the least mean of `window` (2048) consecutive tokens (of all if there are fewer); `bottom`, the
---mean of the `bottom` share (0.1) of lowest windows, at least one. Without tokens all are 0.
---@param logprobs {logprob: number, top: table[]?}[]|number[]
---@param opts? {window: integer?, tail: integer?, bottom: number?}
---@return {tokens: number[], mean: number, tail: number, lowest: number, bottom: number}
ensemble.confidence = confidence.measure

---A vote with weights of which only the highest count: those >= the quantile 1 - `keep` of the
---weights of samples with an answer. `answers` has false or "" for none. Ties go to the first seen.
---@param opts {answers: any[], weights: number[], keep: number?} `keep`: default 1
---@return {answer: any, share: number?, threshold: number?, kept: integer[]} result `share` of the
---  kept weight; `kept`: samples
ensemble.weighted_vote = confidence.vote

---What cancelling samples whose confidence falls would have decided, and where: DeepConf online on
---recorded samples.
---
---The first `warmup` samples set a threshold: the quantile 1 - `keep` of their lowest windows. A
---later one is cancelled at the first token from which the last `window` ones have a lower mean.
---Samples that were not, and whose lowest window reaches the threshold, vote with it as their
---weight. With `consensus`, it ends once the leader's share reaches that, after the warm-up.
---@param opts {samples: {answer: any, confidences: number[]}[], warmup: integer?, window: integer?,
---  keep: number?, consensus: number?} `samples`: {answer, confidences} by name or place; default
---  16, 2048, 0.1, no consensus
---@return {answer: any, share: number?, threshold: number, stops: (integer|false)[],
---  votes: integer, kept: integer[], stopped_at: integer, stop_reason: "consensus"|"max"} result
---  `stops`: at which token each was cancelled
ensemble.online_confidence = confidence.online

---Combines several weak checks of candidates without labels, after Saad-Falcon et al. 2025,
---"Shrinking the Generation-Verification Gap with Weak Verifiers" (Weaver), by an EM algorithm of
---its own (Dawid and Skene 1979).
---
---`scores` are rows of candidates with a number for each verifier, false for none. Each verifier's
---scores are scaled to 0..1 and are a yes from `threshold` (0.5) on; one that nearly always says
---the same (a share of `drop`, 0.05) is dropped; `rounds` (50) of EM find how often each is right.
---Candidates of several questions may share a call: more rows make better weights.
---
---Result: `scores`, the logarithm of the odds that each candidate is right; `best`, the index of
---the highest (ties to the first); `verifiers`: list of {dropped, min, max, sensitivity,
---specificity, yes, no}, the last two what a vote adds to the score; `fitted`, what was learnt, a
---table that JSON can hold: `ensemble.verifiers { scores = rows, fitted = fitted }`, a table or the
---name of a JSON file, scores others by the same weights.
---@param opts {scores: (number|false)[][], threshold: number?, drop: number?, rounds: integer?,
---  fitted: table|string|nil}
---@return table? result nil if `fitted` cannot be used
---@return string? message
---@return "BAD_DATA"? code
ensemble.verifiers = require "ponder.think.ensemble.verifiers"

---Judges each item of a list by `judge(item, index)`, which may wait. Any value but nil is a
---verdict; nil, message, code or an error is a failure. `on_error`: "collect" keeps failed items
---among the results, "skip" omits them, "fail_fast" cancels the others at the first failure and
---returns nil, message, code, partial, "raise" raises errors of `judge`.
---
---Result: `stop_reason` ("items", "fail_fast"), `results` in the order of the items: list of
---{index, item, verdict} or {index, item, message, code}; `judged`, `failed`, `errors` (list of
---{sample = index, message, code}), `duration_ms`.
---@param opts ponder.ensemble.JudgeOptions
---@return table? result
---@return string? message
---@return string? code
---@return table? partial as the result
ensemble.parallel_judge = require "ponder.think.ensemble.parallel_judge"

---Several debaters answer, read one another's answers and answer again, after Du et al. 2023,
---"Improving Factuality and Reasoning in Language Models through Multiagent Debate". The majority
---answer wins (ties go to the first debater). A debater whose call fails keeps its last answer.
---
---`n_rounds` includes the first, independent round. With `adaptive_stop` the debate ends early:
---when all agree, or, from the second round on, when at most the share `stability_threshold` of the
---debaters changed their answer.
---
---Result: `answer`, `text`, `score` (the share of the debaters that answered), `stop_reason`
---("n_rounds", "agreed", "stable"), `rounds`: list of {round, answers = list of {name, text,
---answer, failed}, changed (how many), change (0..1), agreement (0..1), answers_missing}.
---@param opts ponder.ensemble.DebateOptions
---@return table? result
---@return string? message
---@return string? code
---@return table? partial {rounds, failed, errors, spent}
ensemble.debate = require "ponder.think.ensemble.debate"

return ensemble
