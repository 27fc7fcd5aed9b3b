//! The words the corpora are written with.
//!
//! Plain English words, so that a sentence compresses like text and not like random letters. The lists are part of the seed: a
//! change of them changes every corpus.

use crate::random::Random;

/// Words of sentences.
const WORDS: &str = "\
    able above account across action active actual advance advice agent agree ahead alarm album alert alive allow \
    almost alone along alpine alter amber amount anchor angle animal annual answer apart apple apply april arch area \
    argue arise armor arrive arrow artist aside aspect asset assist atlas attend august autumn avenue average avoid \
    award aware badge balance bamboo banner barn barrel basic basket batch beach beam bean bear beauty become before \
    begin behind belief bell belong below bench benefit berry better beyond bird birth blanket blend block bloom \
    board boat body bond bonus book border borrow bottle bottom boulder bound bowl brand brave bread break breeze \
    brick bridge brief bright bring broad bronze brook brush bubble bucket budget build bundle burn butter button \
    cabin cable cake call calm camera camp canal candle canvas canyon capital carbon card care cargo carpet carry \
    case castle casual cause cedar center chain chair chalk chance change channel chapter charge chart check cheese \
    cherry chest chief child choice circle city claim class clean clear clever client climb clock close cloth cloud \
    clover coach coast coat coffee coin cold collar collect color column combine comfort common company compare \
    complete concert connect consider contain copper copy coral corner correct cotton count country couple course \
    court cover craft create credit crew crisp crop cross crowd crown crystal culture curve custom cycle daily dance \
    dark data date dawn deal decade decide deep deer defend degree delay deliver demand depart depend desert design \
    desk detail develop device diamond differ dinner direct discover distance divide dock doctor document dome door \
    double doubt dove dozen draft dragon draw dream dress drift drink drive drop drum dry dust duty eager early \
    earth east easy echo edge edit effect effort eight elbow elder elect element eleven elm ember emerge empire \
    employ empty enable energy engine enjoy enough ensure enter entire equal error escape estate even evening event \
    every exact example except excite exist exit expand expect expert explain express extend extra fabric face fact \
    factor fair faith fall family famous fancy farm fashion fast father favor feather feature feed feel fence fern \
    festival fiber field figure file fill film final find fine finger finish fire firm first fish five flag flame \
    flash flat flavor fleet flight float floor flow flower fluid focus fold follow food foot force forest forget \
    form fort forty forward fossil found four frame free fresh friend front frost fruit full function fund future \
    galaxy game garden garlic gate gather gaze general gentle giant gift ginger give glad glass globe glory glove \
    gold good grace grade grain grand grant grape grass gravel gray great green grid ground group grove grow guard \
    guess guest guide guitar habit half hall hammer hand happy harbor hard harvest hat hazel head health heart heat \
    heavy height help herb hero hidden high hill history hold hollow home honey honor hood hope horizon horse host \
    hotel hour house human humble hundred hunt hurry ice idea image impact import improve inch include income index \
    indigo inner input insect inside inspire iron island issue ivory jacket jade jazz jewel join journey joy judge \
    juice july jump june jungle junior jury just keep kernel kettle key kind king kitchen kite knee knife knot know \
    label labor ladder lake lamp land lane large laser last late laugh launch laurel lavender layer lead leaf learn \
    least leather leave legend lemon length lesson letter level library light lilac lily limit line linen link lion \
    list listen little live load local lock lodge logic long look loop loose loud love loyal luck lunar lunch lung \
    machine magic magnet main major make mango manner maple marble march margin marine mark market master match \
    matter meadow meal mean measure medal media meet melody member memory mention menu mercy merit metal method \
    middle might mild mile milk mill mind mineral minor mint minute mirror mist mix model modern moment month moon \
    moral morning moss mother motion motor mount mouse move much music must myth name narrow nation native nature \
    navy near neck need nerve nest network never new next nice night nine noble noise noon normal north note notice \
    novel number oak oasis oat object ocean october offer office often olive onion open opera orange orbit order \
    organ origin other outer oval oven over owner oxygen oyster pace pack page paint pair palace palm panel paper \
    parade parent park part party pass past path patrol pattern pause peace peach pear pearl pebble pencil people \
    pepper perfect period permit person phase phone photo phrase piano pick picture piece pilot pine pink pioneer \
    pipe pitch pixel place plain plan planet plant plate play plenty plum pocket poem point polar polish pond pony \
    pool poppy port pose position possible post potato powder power prairie praise prefer prepare present press \
    price pride prime print prize proof proper proud prove public pulse pumpkin pupil pure purple push puzzle \
    quality quartz queen quest quick quiet quilt quite quote rabbit race radar radio rail rain raise ranch range \
    rapid rare rate raven reach read ready real reason rebel recall record reef refer reflect region regular relax \
    relay rely remain remember remote repair repeat reply report rescue rest result return review reward rhythm \
    ribbon rice rich ride ridge right ring rise river road robin robot rock roof room root rope rose rough round \
    route royal ruby rule rural rust saddle safe saffron sage sail salad salt same sample sand satin sauce save \
    scale scarf scene school science scope score scout screen script sea search season seat second secret sector \
    seed seek select senior sense series serve session settle seven shade shadow shape share sharp shell shelter \
    shield shift shine ship shirt shoe shop shore short shoulder shovel show sight sign signal silent silk silver \
    simple since sing single sister site size sketch skill skin sky slate sleep slice slide slim slope slow small \
    smart smile smoke smooth snack snow social sock soft soil solar solid solve song sonic soon sort sound soup \
    source south space spare spark speak special speed spell spend sphere spice spider spin spirit split sport spot \
    spray spread spring square squash stable stack stadium staff stage stair stamp stand star start state station \
    stay steady steam steel stem step stick still stitch stock stone stool story stove street stretch string strong \
    student studio style subject sudden sugar suit summer sun super supply sure surf surface surge sweet swift swim \
    switch symbol system table tail talent talk target task taste teach team temple tennis term test text thank \
    theme theory there thing think third thread three thrive throw thumb thunder ticket tide tiger timber time tiny \
    title toast today token tomato tone tool topic torch total touch tower town toy track trade train travel \
    treasure tree trend trial tribe trick trim trip tropic truck true trust truth tulip tunnel turn turtle twelve \
    twenty twice twin type uncle under unfold union unique unit until upper urban useful usual valid valley value \
    vapor velvet vendor venture verse vessel victory video view village vine violet violin virtue visit visual vital \
    vivid voice volume voyage wagon walk wall walnut warm wash watch water wave wealth weather weave wedding weekend \
    weight welcome west whale wheat wheel white whole width wild willow wind window wine wing winner winter wire \
    wise wish wolf wonder wood wool word work world worth woven wrist write yard year yellow young youth zebra zero \
    zone";

/// Forty hues and twenty-five tints make the thousand colours.
const HUES: [&str; 40] = [
    "amber", "aqua", "azure", "beige", "black", "blue", "bronze", "brown", "coral", "cream", "crimson", "cyan",
    "emerald", "gold", "gray", "green", "indigo", "ivory", "jade", "khaki", "lavender", "lilac", "lime", "magenta",
    "maroon", "mauve", "mint", "navy", "olive", "orange", "peach", "pink", "plum", "purple", "red", "rose", "rust",
    "teal", "violet", "white",
];
const TINTS: [&str; 25] = [
    "bright", "burnt", "cool", "dark", "deep", "dim", "dusky", "dusty", "faded", "frosted", "glossy", "hazy", "hot",
    "icy", "light", "matte", "mellow", "misty", "muted", "pale", "pastel", "rich", "smoky", "soft", "warm",
];

/// The text of colour `index`: `blue` for the first, then a tint and a hue, with a number from the thousandth on.
pub(super) fn color(index: u64) -> String {
    let tint = TINTS[usize::try_from(index / 40 % 25).unwrap_or_default()];
    let hue = HUES[usize::try_from((index + 5) % 40).unwrap_or_default()];
    match (index, index / 1000) {
        (0, _) => hue.to_owned(),
        (_, 0) => format!("{tint}-{hue}"),
        (_, round) => format!("{tint}-{hue}-{round}"),
    }
}

/// One word.
pub(super) fn word(random: &mut Random) -> &'static str {
    // Split once: the list is a constant, and a million objects take a hundred words each.
    static LIST: std::sync::LazyLock<Vec<&str>> = std::sync::LazyLock::new(|| WORDS.split_whitespace().collect());
    random.choose(&LIST)
}

/// So many words with a space between.
pub(super) fn sentence(random: &mut Random, words: usize) -> String {
    let mut text = String::with_capacity(words * 7);
    for index in 0..words {
        if index > 0 {
            text.push(' ');
        }
        text.push_str(word(random));
    }
    text
}
