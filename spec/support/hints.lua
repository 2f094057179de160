--- A task for ponder.optimize without a model: answers are right more often where the prompt has
--- the hint that its item needs. There are five such hints, each for a fifth of the items, and five
--- that help nobody; what proposes draws one of the ten. Noise is a hash of what it belongs to.

local optimize = require "ponder.optimize"
local store = require "ponder.core.store"
local task = require "ponder.task"

local hints = { HINTS = 5 }

local function share_of(...)
    local text = table.concat({ ... }, "|")
    return tonumber(store.sha256(text):sub(1, 12), 16) / 16 ^ 12
end

function hints.items(n)
    local list = {}
    for i = 1, n do
        list[i] = { id = "i" .. i, question = "q" .. i, hint = "h" .. (i - 1) % hints.HINTS + 1 }
    end
    return list
end

local function with_words(...)
    local words, seen = {}, {}
    for word in table.concat({ ... }, " "):gmatch "%S+" do
        words[#words + 1], seen[word] = not seen[word] and word or nil, true
    end
    table.sort(words)
    return table.concat(words, " ")
end

local function has_word(text, word)
    return (" " .. text .. " "):find(" " .. word .. " ", 1, true) ~= nil
end

---Whether a candidate has all hints that help.
function hints.is_optimal(candidate)
    for i = 1, hints.HINTS do
        if not has_word(candidate.prompts.hint, "h" .. i) then
            return false
        end
    end
    return true
end

---The options of optimize.run.
---@param seed integer of the noise and of the optimization
---@param opts? table high, low: shares of right answers with and without a hint; n: items; and
---  options of optimize.run
function hints.options(seed, opts)
    opts = opts or {}
    local high, low, proposals = opts.high or 0.9, opts.low or 0.1, {}
    local all = { prompts = { hint = "start" }, seed = seed, max_candidates = 150,
        eval = { data = hints.items(opts.n or 60),
            score = function(_, answer) return answer == "right" end,
            policies = { p = function(item, run)
                local text = run.prompts.hint
                local skill = has_word(text, item.hint) and high or low
                return share_of(seed, text, item.id) < skill and "right" or "wrong"
            end } },
        propose = function(candidate)
            local text = candidate.prompts.hint
            proposals[text] = (proposals[text] or 0) + 1
            return with_words(text, ("h%d"):format(share_of(seed, "propose", text,
                proposals[text]) * 2 * hints.HINTS // 1 + 1))
        end,
        merge = function(a, b)
            return { prompts = { hint = with_words(a.prompts.hint, b.prompts.hint) } }
        end }
    for name, value in pairs(opts) do
        if name ~= "high" and name ~= "low" and name ~= "n" then
            all[name] = value
        end
    end
    return all
end

---Optimizes; see `options`.
function hints.run(seed, opts)
    return task.run(function() return assert(optimize.run(hints.options(seed, opts))) end)
end

---How many of the runs with seeds from 1 to n find the optimum among their candidates, and how many
---claim a difference.
function hints.count(n, opts)
    local found, claims = 0, 0
    for seed = 1, n do
        local result, is_found = hints.run(seed, opts), false
        for _, candidate in ipairs(result.candidates) do
            is_found = is_found or hints.is_optimal(candidate)
        end
        assert(#result.candidates <= 150)
        found = found + (is_found and 1 or 0)
        claims = claims + (result.difference and result.difference.p < 0.05 and 1 or 0)
    end
    return found, claims
end

return hints
