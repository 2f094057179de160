--- Ways to get one good answer from many samples: best of n, self-consistency, judging, debate.
---
---     local ensemble = require "ponder.ensemble"
---     local result, message, code = ensemble.self_consistency { model = "openai:gpt-6-luna",
---         prompt = "How many primes are below 50? Think, then end with: Answer: N", n = 8 }
---     print(result.answer, result.score, result.entropy)
---
--- The calls of a step run concurrently. Samples of one prompt are different requests: each has a
--- number (`sample`), which is part of the request's identity in a cache or run log and is added to
--- `seed`. Whether their texts differ depends on the temperature.
---
--- Failed calls are counted (`failed`) and listed (`errors`, a list of {sample, message, code});
--- the others are used. If fewer than `min_successes` (default 1) succeed, the function returns
--- `nil, message, code, partial` with the first failure.
---
--- Each function takes one table. `concurrency` limits the calls at once (default: no limit).
--- `on_error` is that of task.map: "collect", the default, counts errors in your functions as
--- failures, "raise" raises them.
---
--- A model is open or a name; a prompt is a text or a list of messages. Options of a call
--- (temperature, max_output_tokens, seed, timeout_ms, on_delta(text, kind, sample)...) go into the
--- same table. Every result has `stop_reason`, `failed`, `errors` and `spent` (a
--- ponder.task.Spent), but for parallel_judge also `answer` and `score`, and can be encoded as
--- JSON. A notice says when all samples are equal. All functions but tree_of_thoughts must be
--- called within a task.

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

---@class ponder.ensemble.ConsistencyOptions: ponder.ensemble.Options
---@field n? integer samples, default 8
---@field extract? fun(text: string): any
---@field normalize? fun(answer: any): any
---@field vote? "majority"|"weighted" default "majority"
---@field confidence? fun(answer: any, text: string, reply: ponder.model.Reply): number

---@class ponder.ensemble.JudgeOptions
---@field items any[]
---@field judge fun(item: any, index: integer): any
---@field concurrency? integer items at once, default 4
---@field on_error? "collect"|"skip"|"fail_fast"|"raise" default "collect"
---@field on_progress? fun(progress: table) after each item: {done, total, failed, index, verdict,
---  message, code}

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
---Result: `answer`, a text, `sample` (its number), `score` (with reward), `stop_reason`
---("verified", "n"), `candidates`: list of {sample, text, finish_reason, score, votes}.
---@param opts ponder.ensemble.BestOptions
---@return table? result
---@return string? message
---@return string? code
---@return table? partial {candidates, failed, errors, spent}
ensemble.best_of_n = require "ponder.think.ensemble.best_of_n"

---The answer that most of `n` reasoning paths reach, after Wang et al. 2022, "Self-Consistency
---Improves Chain of Thought Reasoning in Language Models".
---
---`extract(text)` finds the answer in a reply (default: ponder.think.parse.answer); with `returns`,
---as in m:complete, the answer is the value. `normalize(answer)` makes the key by which answers, a
---value as text, are compared (default: ignores case, spaces, punctuation and the format of
---numbers). `vote` is "majority", or "weighted" by `confidence(answer, text, reply)`, a number >=
---0; default: the exponential of the mean log probability of the reply's tokens, which needs a
---model with logprobs. A sample without an answer or weight has failed.
---
---Result: `answer` as in its first sample; `text` of its sample with the highest weight; `score`,
---its share of the votes, 0..1; `distribution`: list of {answer, key, count, weight, share}, the
---highest weight first (ties: more samples, then the first to appear); `entropy` of the shares in
---bits, 0 if all agree; `samples`: list of {sample, text, answer, key, weight}.
---@param opts ponder.ensemble.ConsistencyOptions
---@return table? result
---@return string? message
---@return string? code
---@return table? partial {samples, failed, errors, spent}
ensemble.self_consistency = require "ponder.think.ensemble.self_consistency"

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
