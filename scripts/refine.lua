--- Generate or refine, with ab_mcts (Inoue et al. 2025): a verifier scores each attempt, and
--- Thompson sampling decides whether to generate a new one or to refine an existing one.
---
---     ponder run scripts/refine.lua                                  offline: a scripted writer
---     ponder run scripts/refine.lua --model openai:gpt-6-luna --tickets 40
---
--- The task: a sentence of exactly N words in which every word begins with the given letter. The
--- verifier is code, so the score is the truth.

local args = require "ponder.args"
local model = require "ponder.model"
local quote = require "ponder.quote"
local search = require "ponder.search"

local RULES = {
    letter = { value = "C", default = "s", help = "first letter of every word" },
    words = { value = "N", type = "integer", min = 2, max = 30, default = 7,
        help = "length of the sentence" },
    tickets = { value = "N", type = "integer", min = 1, default = 60, help = "most attempts" },
    seed = { value = "N", type = "integer", default = 1, help = "seed of the search" },
    concurrency = { value = "N", type = "integer", min = 1, default = 4,
        help = "attempts in flight" },
    posterior = { value = "NAME", enum = { "gaussian", "beta", "mixed" }, default = "gaussian",
        help = "assumed distribution of scores: gaussian, beta, mixed" },
    model = { value = "NAME", help = "such as openai:gpt-6-luna; default: a scripted writer" },
}

local GENERATE = "Write a sentence of exactly %d words, each of which begins with the letter %s. "
    .. "Answer with the sentence alone."
local REFINE = GENERATE .. "\n\nThis attempt is not right yet: %s\n%s"

local opts = args.script("refine", { ... }, RULES, { operands = 0,
    about = "Writes a sentence of N words that begin with a letter: generates, or refines." })
if #opts.letter ~= 1 or not opts.letter:find("%a") then
    io.stderr:write("refine: --letter must be one letter\n")
    os.exit(2)
end

local writer, problem
if opts.model then
    writer, problem = model.try_open(opts.model)
end
if problem then
    io.stderr:write("refine: ", problem, "\n")
    os.exit(2)
end

local function words_of(text)
    local words = {}
    for word in text:gmatch("%a[%a'-]*") do
        words[#words + 1] = word
    end
    return words
end

-- The score, 0 to 1, and what is wrong.
local function verify(text)
    local words, right, seen, twice = words_of(text), 0, {}, 0
    for _, word in ipairs(words) do
        local lower = word:lower()
        right = right + (lower:sub(1, 1) == opts.letter:lower() and 1 or 0)
        twice = twice + (seen[lower] and 1 or 0)
        seen[lower] = true
    end
    local off = math.abs(#words - opts.words)
    local score = (right - twice) / math.max(#words, opts.words, 1) - 0.05 * off
    return math.max(0, math.min(1, score)), ("it has %d words, %d begin with %s, %d are repeated")
        :format(#words, right, opts.letter, twice)
end

-- A writer without a model: picks random words; to refine a text, replaces a wrong word.
local LEXICON = { "some", "small", "slow", "ships", "sail", "south", "seeking", "silver", "sand",
    "under", "bright", "stars", "every", "silent", "summer", "night", "softly", "singing", "home" }

local function write_offline(text, node)
    local state = node.id * 7919 + node.expansions * 104729 + opts.seed
    local function pick(list)
        state = (state * 1103515245 + 12345) & 0x7fffffff
        return list[(state >> 8) % #list + 1]
    end
    local words, seen = words_of(text), {}
    if text == "" then
        for i = 1, opts.words do words[i] = pick(LEXICON) end
        return table.concat(words, " ")
    end
    for i, word in ipairs(words) do
        if word:sub(1, 1) ~= opts.letter or seen[word] then
            words[i] = pick(LEXICON)
            break
        end
        seen[word] = true
    end
    return table.concat(words, " ")
end

local function ask(text, node)
    local prompt = text == "" and GENERATE:format(opts.words, opts.letter)
        or REFINE:format(opts.words, opts.letter, select(2, verify(text)), text)
    local reply, message, code = writer:complete(prompt, { seed = node.expansions })
    return reply and reply:match("^%s*(.-)%s*$"), message, code
end

-- A state is a text. The first is empty: its children are new texts, those of others refined ones.
local result, message, _, partial = search.run {
    search = "ab_mcts", initial_state = "", posterior = opts.posterior, seed = opts.seed,
    expand = function(text, _, node)
        local new, why, code = (writer and ask or write_offline)(text, node)
        if not new then
            return nil, why, code
        end
        return { new }
    end,
    evaluate = function(text) return (verify(text)) end,
    is_terminal = function(text) return verify(text) == 1 end,
    reflect = function() return true end, -- remembers that an attempt was right
    stop = function(node) return #node.memory > 0 end,
    max_iterations = opts.tickets, max_depth = 40,
    batch = opts.concurrency, concurrency = opts.concurrency,
}
if not result then io.stderr:write("refine: ", message, "\n") end
local reached = result or partial -- a budget may be spent, but what it bought counts
local best = reached.best_node
print(best.state ~= "" and best.state or "no attempt scored above 0")
print(("score %.3f at depth %d, %s"):format(best.score, best.depth,
    quote.count(reached.stats.nodes - 1, "attempt")))
if not result then os.exit(1) end
return result
