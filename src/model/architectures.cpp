// Every model_type of transformers 5.23.0 (models/auto/auto_mappings.py) that is no family here.
// None of them is llama under another name, so none may be read --as one.
#include "architectures.hpp"

#include <algorithm>
#include <vector>

#include "family.hpp"

namespace ac_advisor::model {
namespace {

struct Group {
  std::string_view what;
  std::string_view names;  ///< separated by one space
};

// clang-format off
constexpr Group groups[] = {
    {"LayerNorm and an MLP without a gate",
     "codegen falcon gpt_neox_japanese gptj persimmon"},
    {"LayerNorm without weights",
     "olmo"},
    {"LayerNorm, an MLP without a gate, and positions other than rotary ones",
     "biogpt bloom ctrl gpt-sw3 gpt_bigcode gpt_neo mpt openai-gpt xglm"},
    {"an encoder",
     "albert audioflamingo3_encoder beit bert bert-generation big_bird blt_local_encoder "
     "camembert clip clvp_encoder convbert data2vec-text deberta deberta-v2 "
     "deepseek_ocr2_encoder dia_encoder distilbert dots3_note_audio_encoder dpr "
     "edgetam_prompt_encoder edgetam_video_prompt_encoder electra ernie esm esmc eurobert "
     "flaubert fnet fun_asr_nano_encoder funnel gemma3n_audio gemma4_audio gemma4_unified_audio "
     "glmasr_encoder granite_speech5_encoder granite_speech_encoder granite_speech_plus_encoder "
     "gte ibert inkling_audio jina_embeddings_v3 lasr_encoder layoutlm longformer luke lxmert "
     "megatron-bert mobilebert modernbert modernvbert moonshine_streaming_encoder "
     "moss_transcribe_diarize_audio mpnet mra muse_spark_audio nemotron3_5_transcribe_asr_audio "
     "nemotron3_5_transcribe_audio nemotron3_diarization_audio nemotron_asr_streaming_encoder "
     "neomme nomic_bert nystromformer parakeet_encoder pe_audio pe_audio_encoder "
     "pe_audio_video_encoder pe_video_encoder perceiver phi4_multimodal_audio "
     "qwen2_5_omni_audio_encoder qwen2_audio_encoder qwen3_asr_encoder "
     "qwen3_omni_moe_audio_encoder rembert roberta roberta-prelayernorm roc_bert roformer "
     "sam2_prompt_encoder sam2_video_prompt_encoder sam3_detr_encoder sam3_geometry_encoder "
     "sam3_lite_text_detr_encoder sam3_lite_text_geometry_encoder sam3_tracker_prompt_encoder "
     "sam3_tracker_video_prompt_encoder sam_hq_prompt_encoder sam_prompt_encoder siglip splinter "
     "squeezebert t5gemma2_encoder tapas ultrabert ultravbert voxtral_encoder "
     "voxtral_realtime_encoder xlm-roberta xlm-roberta-xl xmod yoso"},
    {"an encoder of images",
     "aimv2_vision_model align_vision_model altclip_vision_model blip_2_vision_model "
     "blip_vision_model bridgetower_vision_model chinese_clip_vision_model clip_vision_model "
     "clipseg_vision_model cohere_compass_vision convnext cosmos3_edge_vision "
     "deepseek_ocr2_sam_vision_model deepseek_ocr2_vision deit dinov2 dots3_note_vision_encoder "
     "edgetam_vision_model ernie4_5_vl_moe_vision exaone4_5_vision florence_vision "
     "gemma3n_vision gemma4_unified_vision gemma4_vision git_vision_model glm4v_moe_vision "
     "glm4v_vision glm5_next_vision glm_image_vision glm_ocr_vision got_ocr2_vision "
     "granite_docling_vision groupvit_vision_model hunyuan_vl_vision idefics2_vision "
     "idefics3_vision idefics_vision inkling2_vision inkling_vision instructblip_vision_model "
     "instructblipvideo_vision_model internvl_vision janus_vision_model kimi_k25_vision "
     "kosmos_2_5_vision_model kosmos_2_vision_model lfm3_vl_vision llama4_vision_model "
     "metaclip_2_vision_model minicpm_ocr_vision minicpmv4_6_vision minicpmv4_7_vision "
     "minimax_m3_vl_vision mlcd_vision_model mllama_vision_model molmo2_vision "
     "muse_glimmer_vision muse_spark_vision ovis2_vision owlv2_vision_model owlvit_vision_model "
     "paddleocr_vl_vision phi4_multimodal_vision pix2struct_vision_model pixtral "
     "pp_chart2table_vision pp_formulanet_vision qianfan_ocr_vision qwen2_5_omni_vision_encoder "
     "qwen2_5_vl_vision qwen2_vl_vision qwen3_5_moe_vision qwen3_5_vision "
     "qwen3_omni_moe_vision_encoder qwen3_vl_moe_vision qwen3_vl_vision qwen4_exp_vision resnet "
     "sam2_vision_model sam3_vision_model sam_hq_vision_model sam_vision_model "
     "siglip2_vision_model siglip_vision_model slanext_vision smolvlm_vision step3p5_vision swin "
     "tipsv2_vision_model unlimited_ocr_sam_vision_model unlimited_ocr_vision "
     "unlimited_ocr_vision_encoder video_llama_3_vision videoprism_vision_model vit vit_mae "
     "xclip_vision_model"},
    {"an encoder of sound",
     "hubert moshi seamless_m4t wav2vec2 wavlm"},
    {"an encoder with a decoder",
     "audioflamingo3 bart bigbird_pegasus blenderbot blenderbot-small encoder-decoder fsmt "
     "glmasr granite_speech granite_speech_plus led longt5 m2m_100 marian mbart "
     "moss_transcribe_diarize mt5 musicflamingo musicgen musicgen_melody mvp nemo_speechlm "
     "nllb-moe pegasus pegasus_x plbart prophetnet qwen2_audio qwen3_asr seamless_m4t_v2 "
     "speech-encoder-decoder switch_transformers t5 t5gemma t5gemma2 trocr umt5 vibevoice_asr "
     "vision-encoder-decoder voxtral voxtral_realtime whisper"},
    {"another activation and MLP without a gate",
     "apertus arcee nanochat"},
    {"another attention",
     "blt diffllama doge"},
    {"experts",
     "afmoe aria_text cohere2_moe dbrx deepseek_v4 dots1 ernie4_5_moe exaone_moe flex_olmo "
     "granitemoe granitemoe_swa granitemoeshared hunyuan_v1_moe hy_v3 jetmoe "
     "mimo_v2_flash minimax_m2 phimoe solar_open"},
    {"experts and attention sinks",
     "gpt_oss"},
    {"images beside text",
     "aria aya_vision blip blip-2 chameleon cohere2_vision cohere_compass cosmos3_edge "
     "cosmos3_omni deepseek_ocr2 deepseek_vl deepseek_vl_hybrid diffusion_gemma dots3_note emu3 "
     "ernie4_5_vl_moe evolla exaone4_5 fast_vlm florence2 fuyu gemma4 gemma4_unified git glm46v "
     "glm4v glm4v_moe glm5_next glm_ocr glmga got_ocr2 granite4_vision granite_docling "
     "hunyuan_vl hyperclovax_vision_v2 idefics idefics2 idefics3 inkling2 inkling_mm_model "
     "instructblip instructblipvideo internvl janus kimi_k25 kosmos-2 kosmos-2.5 lfm2_vl lfm3_vl "
     "lighton_ocr llava llava_next llava_next_video llava_onevision minicpm_ocr minicpmv4_6 "
     "minicpmv4_7 minimax_m3_vl mistral3 mistral4 mistral_large4 mllama molmo2 muse_glimmer "
     "muse_spark nemotron_h_omni ovis2 paddleocr_vl paligemma perception_lm pi0 pix2struct "
     "pp_chart2table pp_formulanet qianfan_ocr qwen2_5_omni_thinker qwen2_5_vl qwen2_vl "
     "qwen3_omni_moe_thinker qwen3_vl qwen3_vl_moe qwen4_exp shieldgemma2 smolvlm step3p7 udop "
     "unlimited_ocr video_llama_3 video_llava vipllava"},
    {"latent attention (MLA)",
     "minicpm3 youtu"},
    {"latent attention (MLA) and experts",
     "axk1 axk2 deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa longcat_flash"},
    {"layers that share keys and values, and per-layer embeddings",
     "gemma3n gemma3n_text"},
    {"multipliers of embedding, scores, residuals and logits",
     "granite_swa"},
    {"queries scaled by position",
     "ministral3"},
    {"recurrent blocks",
     "falcon_mamba mamba mamba2 rwkv xlstm"},
    {"recurrent blocks beside attention",
     "bailing_hybrid bamba falcon_h1 granitemoehybrid jamba kimi_linear lfm2 lfm2_moe lfm3 "
     "minimax nemotron_h olmo_hybrid qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text "
     "qwen3_next recurrent_gemma zamba zamba2"},
    {"reversible or recurrent attention",
     "reformer xlm xlnet"},
    {"",
     "aimv2 aimv2_text_model align align_text_model altclip altclip_text_model "
     "audio-spectrogram-transformer autoformer bark beam bit bitnet blip_2_qformer "
     "blip_text_model blt_global_transformer blt_local_decoder blt_patcher bridgetower "
     "bridgetower_text_model bros canary canary_decoder canine chameleon_vqgan chinese_clip "
     "chinese_clip_text_model chmv2 clap clap_audio_model clap_text_model clip_text_model "
     "clipseg clipseg_text_model clvp clvp_decoder cohere_asr cohere_compass_text colmodernvbert "
     "colpali colqwen2 conditional_detr convnextv2 cosmos3_edge_text cpmant csm "
     "csm_depth_decoder_model cvt cwm d_fine dab-detr dac data2vec-audio data2vec-vision "
     "decision_transformer deepseek_ocr2_text deformable_detr deimv2 depth_anything depth_pro "
     "detr dia dia_decoder diffusion_gemma_text dinat dinov2_with_registers dinov3_convnext "
     "dinov3_vit donut-swin dots3_note_text dpt edgetam edgetam_mask_decoder edgetam_video "
     "edgetam_video_mask_decoder efficientloftr efficientnet embedding_gemma2 "
     "embedding_gemma2_text emu3_text_model emu3_vqgan encodec eomt eomt_dinov3 ernie4_5 "
     "ernie4_5_vl_moe_text esmfold2 exaone4 fastspeech2_conformer fastspeech2_conformer_hifigan "
     "fastspeech2_conformer_with_hifigan flava flava_image_codebook flava_image_model "
     "flava_multimodal_model flava_text_model flint focalnet fun_asr_nano gemma4_assistant "
     "gemma4_text gemma4_unified_assistant gemma4_unified_text glm4v_moe_text glm4v_text "
     "glm5_next_text glm_image glm_image_text glm_image_vqmodel glm_ocr_text glpn "
     "gradium_phonon_tts granite4_vision_text granite_docling_text granite_speech5_ctc "
     "grounding-dino groupvit groupvit_text_model helium hgnet_v2 hiera higgs_audio_v2 "
     "higgs_audio_v2_tokenizer hrm_text hunyuan_v1_dense hunyuan_vl_text hy_v4 hyperclovax "
     "idefics2_perceiver idefics_perciever ijepa imagegpt informer inkling2_text inkling_text "
     "instructblip_qformer instructblipvideo_qformer internlm3 iquestcoder jais2 janus_vqgan jev "
     "kolibri1 kosmos_2_5_text_model kosmos_2_text_model kyutai_speech_to_text laguna lasr_ctc "
     "layoutlmv2 layoutlmv3 layoutxlm levit lightglue lilt lw_detr lw_detr_vit markuplm "
     "mask2former maskformer maskformer-swin mellum metaclip_2 metaclip_2_text_model mgp-str "
     "mimi minimax_m3_vl_text ministral mistral_large4_text mllama_text_model mm-grounding-dino "
     "mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 modernbert-decoder molmo2_adapter "
     "molmo2_text moonshine moonshine_streaming moshi_depth muse_glimmer_assistant "
     "muse_glimmer_text muse_spark_text musicgen_decoder musicgen_melody_decoder nemotron3_5_asr "
     "nemotron3_5_transcribe_word_timestamp nemotron3_diarization nemotron_asr_streaming "
     "neucodec nougat omdet-turbo oneformer openai_privacy_filter owlv2 owlv2_text_model owlvit "
     "owlvit_text_model paddleocr_vl_text parakeet_ctc parakeet_rnnt patchtsmixer patchtst "
     "pe_audio_video pe_video phi4_multimodal pix2struct_text_model pixio pocket_tts "
     "pocket_tts_audio_tokenizer poolformer pop2piano pp_doclayout_v2 pp_doclayout_v3 "
     "pp_doclayout_v4 pp_formulanet_text pp_lcnet pp_lcnet_v3 pp_lcnet_v4 pp_ocrv5_mobile_det "
     "pp_ocrv5_mobile_rec pp_ocrv5_server_det pp_ocrv5_server_rec pp_ocrv6_medium_det "
     "pp_ocrv6_small_det pp_ocrv6_small_rec pp_ocrv6_tiny_rec prompt_depth_anything pvt pvt_v2 "
     "qwen2_5_omni qwen2_5_omni_bigvgan qwen2_5_omni_dit qwen2_5_omni_talker qwen2_5_omni_text "
     "qwen2_5_omni_token2wav qwen2_5_vl_text qwen2_vl_text qwen3_omni_moe "
     "qwen3_omni_moe_talker_code_predictor qwen3_omni_moe_talker_text qwen3_omni_moe_text "
     "qwen3_vl_moe_text qwen3_vl_text qwen4_exp_text radio rag regnet rf_detr rf_detr_dinov2 "
     "rt_detr rt_detr_resnet rt_detr_v2 sam sam2 sam2_hiera_det_model sam2_mask_decoder "
     "sam2_video sam2_video_mask_decoder sam3 sam3_detr_decoder sam3_lite_text "
     "sam3_lite_text_detr_decoder sam3_lite_text_mask_decoder sam3_lite_text_text_model "
     "sam3_mask_decoder sam3_tracker sam3_tracker_mask_decoder sam3_tracker_video "
     "sam3_tracker_video_mask_decoder sam3_video sam3_vit_model sam_hq sam_hq_mask_decoder "
     "sam_mask_decoder sapiens2 sapiens2_head seed_oss segformer seggpt sew sew-d siglip2 "
     "siglip2_text_model siglip_text_model slanet slanext speech_to_text speecht5 "
     "speecht5_hifigan step3p5 superglue superpoint swiftformer swin2sr swinv2 t5_gemma_module "
     "t5gemma2_decoder t5gemma2_text table-transformer textnet time_series_transformer timesfm "
     "timesfm2_5 timesformer timm_backbone timm_wrapper tipsv2 tipsv2_dpt tipsv2_text_model tvp "
     "unispeech unispeech-sat univnet unlimited_ocr_text upernet uvdoc uvdoc_backbone vaultgemma "
     "vibevoice vibevoice_acoustic_tokenizer vibevoice_diffusion videomae videomt videoprism "
     "videoprism_text_model vilt vision-text-dual-encoder visual_bert vit_msn vitdet vitmatte "
     "vitpose vitpose_backbone vits vivit vjepa2 voxtral_realtime_text wav2vec2-bert "
     "wav2vec2-conformer xclip xclip_text_model xcodec xcodec2 yolos zaya zoedepth"},
};
// clang-format on

std::vector<OtherArchitecture> make_table() {
  std::vector<OtherArchitecture> table;
  for (const Group& group : groups) {
    for (std::string_view rest = group.names; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      const std::string_view name = rest.substr(0, end);
      if (find_family(name) == nullptr) table.push_back({name, group.what});
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return table;
}

}  // namespace

const OtherArchitecture* find_other_architecture(std::string_view model_type) {
  static const std::vector<OtherArchitecture> table = make_table();
  const auto at = std::find_if(table.begin(), table.end(), [&](const OtherArchitecture& other) {
    return other.name == model_type;
  });
  return at != table.end() ? &*at : nullptr;
}

}  // namespace ac_advisor::model
