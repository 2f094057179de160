--- Asks a server which models it offers.

local quote = require "ponder.quote"
local service = require "ponder.model.service"

local list = {}

--- See ponder.model.Model.list.
---@param limits {timeout_ms: integer?, max_retries: integer?}
function list.run(client, target, limits)
    if not target.base_url or not target.provider.models_path then
        return nil, target.name .. ": this provider has no list of models", "NOT_FOUND"
    end
    local decoded, problem, attempts = service.ask(client, target, {
        path = target.provider.models_path, timeout_ms = limits.timeout_ms,
        max_retries = limits.max_retries })
    if not decoded then
        return nil, quote.line(target.redactor:text(("%s: %s (%s%s)"):format(target.name,
            problem.message, problem.status and "status " .. problem.status or "no reply",
            attempts > 1 and (", %d attempts"):format(attempts) or "")), 2000), problem.code
    end
    local models = target.provider.parse_models(decoded)
    table.sort(models, function(a, b) return tostring(a.id) < tostring(b.id) end)
    return models
end

return list
