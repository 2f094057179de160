--- `ponder models [PROVIDER]`: lists the models that servers offer.

local cli = require "ponder.cli.shared.main"
local failures = require "ponder.run.task.failures"
local json = require "ponder.json"
local model = require "ponder.model"
local options = require "ponder.base.options"
local text = require "ponder.show.text"

local models = cli.command({ expects = { 0, 1, "at most one PROVIDER" } }, {
    { "base_url", value = "URL", help = "base URL of the provider's API" },
    { "json", help = "print one JSON list" },
    cli.VERBOSE,
})

models.summary = "list the models that a server offers"
models.words = { "anthropic", "ollama", "openai" }

models.about = [[
ponder models [OPTION...] [PROVIDER]

Lists the models of a provider (openai, anthropic, gemini...), or of all configured ones, one per
line, in the form that --model takes. Keys and addresses come from the environment and the config
file.]]

local ASKED = { openai = true, anthropic = true, ollama = true } -- even if not configured

---The providers that have servers: those to ask, and those that are not configured.
---@return string[] asked
---@return string[] others
function models.servers()
    local asked, others = {}, {}
    for _, provider in ipairs(model.providers()) do
        if provider ~= "script" and provider ~= "pool" then
            table.insert((ASKED[provider] or model.is_configured(provider)) and asked or others,
                provider)
        end
    end
    return asked, others
end

function models.run(opts, operands)
    model.config() -- raises if it is broken
    local providers, others = models.servers()
    local wanted = operands[1]
    if wanted then
        local known = table.move(others, 1, #others, #providers + 1, providers)
        table.sort(known)
        cli.expect(options.has(known, wanted), ("unknown provider %s%s; known: %s"):format(
            options.show(wanted), options.hint(wanted, known, "%s"), table.concat(known, ", ")))
        providers = { wanted }
    end
    local all, status = json.array(), 1
    for _, provider in ipairs(providers) do
        local ok, found, message = pcall(model.list, provider, { base_url = opts.base_url,
            max_retries = 0 })
        if not ok then -- the key is missing
            failures.pass_stop(ok, found)
            found, message = nil, found:match("model%.open: (.*)") or found
        end
        if found then
            status = 0
        else
            cli.fail("ponder models", ("%s: %s"):format(provider,
                (message:gsub("^" .. provider .. ": ", ""))))
        end
        for _, one in ipairs(found or {}) do
            one.provider = provider
            all[#all + 1] = one
            if not opts.json then
                local label = provider .. ":" .. text.line(tostring(one.id))
                print(one.name and ("%-48s %s"):format(label, text.line(one.name)) or label)
            end
        end
    end
    if opts.json then
        cli.print_json(all)
    end
    return status
end

return models
