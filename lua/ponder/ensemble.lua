--- Ways to get one good answer out of many tries.
---
---     local ensemble = require "ponder.ensemble"
---     local result, message, code = ensemble.self_consistency { model = "openai:gpt-4o-mini",
---         prompt = "How many primes are below 50? Think, then end with: Answer: N", n = 8 }
---     print(result.answer, result.share, result.entropy)
---
--- The calls of one step are in flight at the same time. Samples of one prompt are different
--- requests: each carries its number (`sample`), which is part of the request's identity in a cache
--- or a run log and counts up a `seed`. Whether their texts differ is up to the temperature.
---
--- A call that fails is counted (`failed`) and reported (`errors`, a list of {sample, message,
--- code}), and the rest goes on without it. Only when fewer than `min_successes` (default 1) remain
--- is the result `nil, message, code, partial`: the first failure, and what there is.
---
--- Each takes one table, as below; (model, prompt, opts), and for parallel_judge
--- (items, judge, opts), are accepted as well. `concurrency` is how
--- many of its calls are made at once (default: all), and `on_error` that of task.map: with
--- "collect", the default, what a function of yours raises is a failure, with "raise" it is raised.
---
--- Models are open ones or names; a prompt is a text or a list of messages. Options of a call
--- (temperature, max_tokens, seed, timeout_ms, on_delta(text, kind, sample)...) stand beside the
--- others. Every result carries `calls`, `failed`, `errors`, `usage` (sums of the
--- replies') and `cost`, and is plain data for JSON. Samples that are all equal are warned of.
--- Everything but tree_of_thoughts runs within a task.

local search = require "ponder.search"

---@class ponder.ensemble.Options: ponder.model.CallOptions
---@field model ponder.model.Model|string
---@field prompt string|ponder.model.Message[]
---@field concurrency? integer calls at a time, default all
---@field on_error? "collect"|"raise" what becomes of errors in functions; default "collect"
---@field min_successes? integer default 1

---@class ponder.ensemble.BestOptions: ponder.ensemble.Options
---@field n? integer samples, default 5
---@field verify? fun(text: string, sample: integer): boolean true: this is the result
---@field reward? fun(text: string, sample: integer): number higher is better; or `judge`
---@field judge? function|ponder.model.Model|string
---@field votes? integer how often a judging model is asked, default 1

---@class ponder.ensemble.ConsistencyOptions: ponder.ensemble.Options
---@field n? integer samples, default 8
---@field extract? fun(text: string): any
---@field normalize? fun(answer: any): any
---@field vote? "majority"|"weighted" default "majority"
---@field confidence? fun(answer: any, text: string, reply: ponder.model.Reply): number

---@class ponder.ensemble.JudgeOptions
---@field items any[]
---@field judge fun(item: any, index: integer): any
---@field concurrency? integer items at a time, default 4
---@field max_concurrent? integer the same, by its former name
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

---Tree search over callbacks, under the name that such searches have with language models.
---@see ponder.search.run
ensemble.tree_of_thoughts = search.run

---The best of `n` samples: by `reward(text, sample)`, a number, higher is better; or by `judge`, a
---function from (texts, question) to the best one's index, or a model that is asked `votes` times
---at the same time (the judge prompt of prompts/ensemble.lua). Without either, the model judges
---itself. `verify(text, sample)` is asked of each sample as it comes: the first that it accepts is
---the result, and the calls that are left are cancelled or not made. These functions may wait, and
---return nil, message, code when they fail. Ties go to the first sample; of a single candidate no
---judge is asked.
---
---Result: `text`, `sample` (its number), `score` (with reward), `verified` (with verify),
---`candidates`: list of {sample, text, finish_reason, score, votes}.
---@param opts ponder.ensemble.BestOptions
---@return table? result
---@return string? message
---@return string? code
---@return table? partial {candidates, calls, failed, errors, usage}
ensemble.best_of_n = require "ponder.ensemble.best_of_n"

---The answer that most of `n` reasoning paths arrive at, after Wang et al. 2022, "Self-Consistency
---Improves Chain of Thought Reasoning in Language Models".
---
---`extract(text)` finds the answer in a reply (default: the last `\boxed{}`, "the answer is",
---"Answer:" or "####", else the last line), `normalize(answer)` makes the key by which answers are
---equal (default: case, spaces, punctuation and the way to write a number do not count). `vote` is
---"majority", or "weighted" by `confidence(answer, text, reply)`, a number >= 0; by default the
---exponential of the mean log probability of the reply's tokens, for which the model must give
---logprobs. A sample without an answer or weight counts as failed.
---
---Result: `answer` as its first sample has it; `text`, its weightiest sample's; `share` of the
---votes, 0..1; `distribution`: list of {answer, key, count, weight, share}, the weightiest first
---(ties: more samples, then the first to appear); `entropy` of the shares in bits, 0 where all
---agree; `samples`: list of {sample, text, answer, key, weight}.
---@param opts ponder.ensemble.ConsistencyOptions
---@return table? result
---@return string? message
---@return string? code
---@return table? partial {samples, calls, failed, errors, usage}
ensemble.self_consistency = require "ponder.ensemble.self_consistency"

---Judges each item of a list by `judge(item, index)`, which may wait; any value but nil is a
---verdict, and nil, message, code or a raised error a failure. `on_error`: "collect" keeps failed
---items among the results, "skip" leaves them out, "fail_fast" ends the others at the first
---failure and returns nil, message, code, partial, "raise" raises what `judge` raises.
---
---Result: `results` in the order of the items: list of {index, item, verdict} or {index, item,
---message, code}; `judged`, `failed`, `errors` (list of {sample = index, message, code}),
---`duration_ms`.
---@param opts ponder.ensemble.JudgeOptions
---@return table? result
---@return string? message
---@return string? code
---@return table? partial as the result
ensemble.parallel_judge = require "ponder.ensemble.parallel_judge"

---Several debaters answer, read one another's answers and answer again, after Du et al. 2023,
---"Improving Factuality and Reasoning in Language Models through Multiagent Debate". The answer is
---that of most debaters (ties: the first one's). A debater whose call fails keeps its last answer.
---
---`n_rounds` counts the first, independent round too. With `adaptive_stop` the debate ends early:
---when all agree, or, from the second round on, when at most `stability_threshold` of the debaters
---changed their answer in a round.
---
---Result: `answer`, `text`, `share` (of the debaters that answered), `stop_reason` ("n_rounds",
---"agreed", "stable"), `rounds`: list of {round, answers = list of {name, text, answer, failed},
---changed (how many), change (0..1), agreement (0..1), answers_missing}.
---@param opts ponder.ensemble.DebateOptions
---@return table? result
---@return string? message
---@return string? code
---@return table? partial {rounds, calls, failed, errors, usage}
ensemble.debate = require "ponder.ensemble.debate"

return ensemble
