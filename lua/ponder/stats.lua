--- Statistics for evaluations: intervals, differences between policies, tests, bootstrap.
---
---     local stats = require "ponder.stats"
---     local lower, upper = table.unpack(stats.wilson(74, 100, 0.95))
---     local difference = stats.newcombe_paired(both, first_only, second_only, neither, 0.95)
---     local p = stats.mcnemar_exact(first_only, second_only)
---
--- Each function names its source. A result of several numbers is a list in the documented order;
--- nil means undefined (the standard error of one item); infinite values are possible. `conf` is a
--- confidence level, default 0.95. Random draws use splitmix64 with the given seed, so that every
--- figure can be reproduced in any language.

local clusters = require "ponder.base.stats.clusters"
local decide = require "ponder.base.stats.decide"
local moments = require "ponder.base.stats.moments"
local proportions = require "ponder.base.stats.proportions"
local random = require "ponder.base.stats.random"

return {
    wilson = proportions.wilson,
    clopper_pearson = proportions.clopper_pearson,
    newcombe_paired = proportions.newcombe_paired,
    newcombe_independent = proportions.newcombe_independent,
    mcnemar_exact = proportions.mcnemar_exact,
    mcnemar_midp = proportions.mcnemar_midp,
    pass_at_k = proportions.pass_at_k,
    pass_hat_k = proportions.pass_hat_k,
    majority_at_k = proportions.majority_at_k,

    clustered_share = clusters.clustered_share,
    clustered_difference = clusters.clustered_difference,

    mean = moments.mean,
    se_clt = moments.se_clt,
    se_cluster_miller = moments.se_cluster_miller,
    se_cluster_cr0 = moments.se_cluster_cr0,
    se_cluster_cr1 = moments.se_cluster_cr1,
    paired_clustered = moments.paired_clustered,
    sample_size = moments.sample_size,
    quantile7 = moments.quantile7,

    bootstrap_mean = random.bootstrap_mean,
    bootstrap_paired = random.bootstrap_paired,
    bootstrap_ratio = random.bootstrap_ratio,
    bootstrap_cluster = random.bootstrap_cluster,
    splitmix64 = random.splitmix64,
    splitmix64_below = random.splitmix64_below,

    decide = decide.decide,

    holm = proportions.holm,
    benjamini_hochberg = proportions.benjamini_hochberg,
}
